// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Tests: state/inventory.cc
#include "fusewire/tf/state/holding.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tensorflow/core/common_runtime/device_factory.h>
#include <tensorflow/core/framework/resource_mgr.h>
#include <tensorflow/core/framework/resource_var.h>
#include <tensorflow/core/public/session_options.h>
#include "fusewire/tf/state/inventory.h"

namespace fusewire::tf {
namespace {

using tensorflow::DataType;
using tensorflow::NodeDef;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using testing::HasSubstr;

std::unique_ptr<tensorflow::Device> MakeDevice() {
  return tensorflow::DeviceFactory::NewDevice("CPU", tensorflow::SessionOptions(), "/job:ps/replica:0/task:0");
}

NodeDef* AddNode(tensorflow::GraphDef* graph, const std::string& op, const std::string& name,
                 const std::string& shared_name = "") {
  NodeDef* node = graph->add_node();
  node->set_op(op);
  node->set_name(name);
  node->set_device("/job:ps/replica:0/task:0/device:CPU:0");
  if (!shared_name.empty()) (*node->mutable_attr())["shared_name"].set_s(shared_name);
  return node;
}

Holding OnlyOf(const tensorflow::GraphDef& graph) {
  const Findings found = FindHoldings(graph);
  EXPECT_EQ(found.obstacle, "");
  EXPECT_EQ(found.holdings.size(), 1u);
  return found.holdings.empty() ? Holding() : found.holdings[0];
}

Holding VariableOf(const std::string& name) {
  tensorflow::GraphDef graph;
  AddNode(&graph, "VarHandleOp", "node", name);
  return OnlyOf(graph);
}

Holding ReferenceOf(const std::string& name, DataType type, const TensorShape& shape) {
  tensorflow::GraphDef graph;
  NodeDef* node = AddNode(&graph, "VariableV2", name);
  (*node->mutable_attr())["dtype"].set_type(type);
  shape.AsProto((*node->mutable_attr())["shape"].mutable_shape());
  return OnlyOf(graph);
}

Holding TableOf(const std::string& op, DataType keys, DataType values) {
  tensorflow::GraphDef graph;
  NodeDef* node = AddNode(&graph, op, "node", "table");
  (*node->mutable_attr())["key_dtype"].set_type(keys);
  (*node->mutable_attr())["value_dtype"].set_type(values);
  return OnlyOf(graph);
}

template <class T>
Tensor TensorOf(const TensorShape& shape, T first) {
  Tensor tensor(tensorflow::DataTypeToEnum<T>::value, shape);
  for (int64_t i = 0; i < tensor.NumElements(); ++i) tensor.flat<T>()(i) = first + static_cast<T>(i);
  return tensor;
}

Tensor Texts(const std::vector<std::string>& texts) {
  Tensor tensor(tensorflow::DT_STRING, TensorShape({static_cast<int64_t>(texts.size())}));
  for (size_t i = 0; i < texts.size(); ++i) tensor.flat<tensorflow::tstring>()(static_cast<int64_t>(i)) = texts[i];
  return tensor;
}

// All of it, in pieces of so many bytes. Empty: it has no value, or changes.
std::vector<Tensor> Copied(tensorflow::Device* device, const Holding& holding, size_t piece_bytes = 7) {
  std::unique_ptr<HoldingReader> reader;
  TfStatus opened = ReadHolding(device, holding, &reader);
  EXPECT_TRUE(opened.ok()) << opened;
  std::vector<HoldingReader::Layout> layouts;
  TfStatus begun = reader->Begin(&layouts);
  EXPECT_TRUE(begun.ok()) << begun;
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < layouts.size(); ++i) {
    std::string bytes(layouts[i].bytes, '\0');
    for (size_t at = 0; at < bytes.size(); at += piece_bytes) {
      const size_t size = std::min(piece_bytes, bytes.size() - at);
      if (!reader->Read(i, at, Bytes(&bytes[at], size))) return {};
    }
    std::vector<uint64_t> shape;
    for (int64_t dim : layouts[i].shape.dim_sizes()) shape.push_back(static_cast<uint64_t>(dim));
    tensors.emplace_back();
    TfStatus made = MakeTensor(layouts[i].type, shape, bytes.size(), &tensors.back());
    EXPECT_TRUE(made.ok()) << made;
    if (IsPlain(layouts[i].type)) {
      std::memcpy(tensors.back().data(), bytes.data(), bytes.size());
    } else {
      EXPECT_TRUE(ParseTensor(bytes, &tensors.back()).ok());
    }
  }
  return tensors;
}

void ExpectSame(const Tensor& one, const Tensor& other) {
  EXPECT_EQ(one.dtype(), other.dtype());
  EXPECT_EQ(one.shape(), other.shape());
  EXPECT_EQ(one.SummarizeValue(1000), other.SummarizeValue(1000));
}

// Restored on one device, copied, restored on another one, and copied again.
void ExpectItComesBack(const Holding& holding, const std::vector<Tensor>& tensors) {
  const auto first = MakeDevice(), second = MakeDevice();
  TfStatus restored = RestoreHolding(first.get(), holding, tensors);
  ASSERT_TRUE(restored.ok()) << restored;
  restored = RestoreHolding(second.get(), holding, Copied(first.get(), holding));
  ASSERT_TRUE(restored.ok()) << restored;
  const std::vector<Tensor> copied = Copied(second.get(), holding);
  ASSERT_EQ(copied.size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) ExpectSame(copied[i], tensors[i]);
}

TEST(Holdings, AVariableComesBack) {
  ExpectItComesBack(VariableOf("rows"), {TensorOf<float>({5, 3}, 1)});
  ExpectItComesBack(VariableOf("count"), {TensorOf<int64_t>({}, 7)});
  ExpectItComesBack(VariableOf("none"), {TensorOf<float>({0, 3}, 1)});
  ExpectItComesBack(VariableOf("texts"), {Texts({"", "one", std::string(1000, 'x')})});
}

TEST(Holdings, AReferenceVariableComesBack) {
  ExpectItComesBack(ReferenceOf("old", tensorflow::DT_FLOAT, {4, 2}), {TensorOf<float>({4, 2}, 1)});
  ExpectItComesBack(ReferenceOf("texts", tensorflow::DT_STRING, {2}), {Texts({"a", "b"})});
}

TEST(Holdings, ATableComesBack) {
  ExpectItComesBack(TableOf("MutableHashTableV2", tensorflow::DT_STRING, tensorflow::DT_INT64),
                    {Texts({"one"}), TensorOf<int64_t>({1}, 1)});
  ExpectItComesBack(TableOf("HashTableV2", tensorflow::DT_INT64, tensorflow::DT_STRING),
                    {TensorOf<int64_t>({1}, 5), Texts({"five"})});
  ExpectItComesBack(TableOf("MutableHashTable", tensorflow::DT_INT64, tensorflow::DT_FLOAT),
                    {TensorOf<int64_t>({1}, 5), TensorOf<float>({1}, 5)});
}

// What a graph's kernels see is what was restored.
TEST(Holdings, KernelsOfGraphsSeeWhatWasRestored) {
  const auto device = MakeDevice();
  ASSERT_TRUE(RestoreHolding(device.get(), VariableOf("rows"), {TensorOf<float>({2}, 8)}).ok());
  NodeDef handle, read;
  handle.set_op("VarHandleOp");
  handle.set_name("handle");
  (*handle.mutable_attr())["shared_name"].set_s("rows");
  (*handle.mutable_attr())["dtype"].set_type(tensorflow::DT_FLOAT);
  TensorShape({2}).AsProto((*handle.mutable_attr())["shape"].mutable_shape());
  read.set_op("ReadVariableOp");
  read.set_name("read");
  read.add_input("handle");
  (*read.mutable_attr())["dtype"].set_type(tensorflow::DT_FLOAT);
  std::unique_ptr<LoneKernel> handles, reads;
  ASSERT_TRUE(LoneKernel::Make(device.get(), handle, &handles).ok());
  ASSERT_TRUE(handles->Run({}).ok());
  ASSERT_TRUE(LoneKernel::Make(device.get(), read, &reads).ok());
  TfStatus ran = reads->Run({handles->output(0)});
  ASSERT_TRUE(ran.ok()) << ran;
  ExpectSame(reads->output(0), TensorOf<float>({2}, 8));
}

TEST(Holdings, OneWithoutAValueHasNothingToCopy) {
  const auto device = MakeDevice();
  std::unique_ptr<HoldingReader> reader;
  EXPECT_TRUE(absl::IsNotFound(ReadHolding(device.get(), VariableOf("rows"), &reader)));
  EXPECT_TRUE(Copied(device.get(), ReferenceOf("old", tensorflow::DT_FLOAT, {4})).empty());
  EXPECT_TRUE(Copied(device.get(), TableOf("HashTableV2", tensorflow::DT_INT64, tensorflow::DT_INT64)).empty());
}

TEST(Holdings, AReferenceVariableThatIsGoneIsNotMadeAgain) {
  auto device = MakeDevice();
  const Holding old = ReferenceOf("v", tensorflow::DT_FLOAT, TensorShape({6, 4}));
  EXPECT_TRUE(RestoreHolding(device.get(), old, {TensorOf<float>(TensorShape({6, 4}), 1)}).ok());
  std::unique_ptr<HoldingReader> reader;
  ASSERT_TRUE(ReadHolding(device.get(), old, &reader).ok());
  std::vector<HoldingReader::Layout> layouts;
  ASSERT_TRUE(reader->Begin(&layouts).ok());
  EXPECT_EQ(layouts.size(), 1u);
  device->resource_manager()->Clear();
  char byte = 0;
  EXPECT_FALSE(reader->Read(0, 0, Bytes(&byte, 1)));
  ASSERT_TRUE(reader->Begin(&layouts).ok());
  EXPECT_TRUE(layouts.empty());
  EXPECT_TRUE(Copied(device.get(), old).empty());
  // The next program wants another shape.
  std::unique_ptr<LoneKernel> kernel;
  const Holding next = ReferenceOf("v", tensorflow::DT_FLOAT, TensorShape({4, 6}));
  ASSERT_TRUE(LoneKernel::Make(device.get(), next.node, &kernel).ok());
  ASSERT_TRUE(kernel->Run({}).ok());
  ASSERT_NE(kernel->reference().tensor, nullptr);
  EXPECT_EQ(kernel->reference().tensor->shape(), TensorShape({4, 6}));
}

TEST(Holdings, AVariableThatChangesItsShapeBeginsAgain) {
  const auto device = MakeDevice();
  const Holding holding = VariableOf("rows");
  ASSERT_TRUE(RestoreHolding(device.get(), holding, {TensorOf<float>({4}, 1)}).ok());
  std::unique_ptr<HoldingReader> reader;
  ASSERT_TRUE(ReadHolding(device.get(), holding, &reader).ok());
  std::vector<HoldingReader::Layout> layouts;
  ASSERT_TRUE(reader->Begin(&layouts).ok());
  tensorflow::Var* found = nullptr;
  ASSERT_TRUE(device->resource_manager()->Lookup<tensorflow::Var>("ps", "rows", &found).ok());
  TfRef<tensorflow::Var> variable(found);
  float piece = 0;
  *variable->tensor() = TensorOf<float>({4}, 5);  // another buffer of the same shape is one more write
  EXPECT_TRUE(reader->Read(0, 0, Bytes(&piece, sizeof(piece))));
  EXPECT_EQ(piece, 5);
  *variable->tensor() = TensorOf<float>({2, 2}, 5);
  EXPECT_FALSE(reader->Read(0, 0, Bytes(&piece, sizeof(piece))));
  ASSERT_TRUE(reader->Begin(&layouts).ok());
  EXPECT_TRUE(reader->Read(0, 0, Bytes(&piece, sizeof(piece))));
}

// Each row holds one number; a writer adds one to whole rows, under the lock, in place.
TEST(Holdings, RowsAreWholeWhileWritersGoOn) {
  const auto device = MakeDevice();
  const Holding holding = VariableOf("rows");
  constexpr int64_t kRows = 256, kWidth = 64;
  Tensor zeros(tensorflow::DT_INT64, TensorShape({kRows, kWidth}));
  zeros.flat<int64_t>().setZero();
  ASSERT_TRUE(RestoreHolding(device.get(), holding, {std::move(zeros)}).ok());
  tensorflow::Var* found = nullptr;
  ASSERT_TRUE(device->resource_manager()->Lookup<tensorflow::Var>("ps", "rows", &found).ok());
  TfRef<tensorflow::Var> variable(found);
  std::atomic<bool> is_enough{false};
  std::atomic<int64_t> rounds{0};
  std::thread writer([&] {
    while (!is_enough) {
      for (int64_t row = 0; row < kRows; ++row) {
        tensorflow::mutex_lock lock(*variable->mu());
        EXPECT_TRUE(variable->tensor()->RefCountIsOne());  // nobody makes the writer copy
        for (int64_t i = 0; i < kWidth; ++i) variable->tensor()->matrix<int64_t>()(row, i) += 1;
      }
      ++rounds;
    }
  });
  while (rounds == 0) std::this_thread::yield();
  for (int copies = 0; copies < 50; ++copies) {
    const std::vector<Tensor> copied = Copied(device.get(), holding, 4 * kWidth * sizeof(int64_t));
    ASSERT_EQ(copied.size(), 1u);
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t i = 1; i < kWidth; ++i)
        EXPECT_EQ(copied[0].matrix<int64_t>()(row, i), copied[0].matrix<int64_t>()(row, 0));
    }
  }
  is_enough = true;
  writer.join();
}

TEST(Holdings, WhatCannotBeCopiedIsNamed) {
  for (const char* op : {"FIFOQueueV2", "ConditionalAccumulator", "Barrier", "Stage", "IteratorV2"}) {
    tensorflow::GraphDef graph;
    AddNode(&graph, op, "node", "sync_token_q");
    EXPECT_EQ(FindHoldings(graph).obstacle, std::string("the ") + op + " sync_token_q");
  }
  tensorflow::GraphDef graph, dense, on_gpu, of_function;
  AddNode(&graph, "MutableHashTableV2", "table");
  EXPECT_EQ(FindHoldings(graph).obstacle, "the MutableHashTableV2 table");  // it is its session's
  AddNode(&dense, "MutableDenseHashTableV2", "node", "rows");
  EXPECT_EQ(FindHoldings(dense).obstacle, "the MutableDenseHashTableV2 rows");  // nobody knows its empty key
  AddNode(&on_gpu, "VarHandleOp", "node", "rows")->set_device("/job:ps/replica:0/task:0/device:GPU:0");
  EXPECT_EQ(FindHoldings(on_gpu).obstacle, "the VarHandleOp rows on GPU:0");
  NodeDef* call = of_function.mutable_library()->add_function()->add_node_def();
  call->set_op("PyFunc");
  call->set_name("inner");
  EXPECT_EQ(FindHoldings(of_function).obstacle, "the PyFunc inner");
}

TEST(Holdings, OperationsWithoutStateAreNotAnObstacle) {
  tensorflow::GraphDef graph;
  AddNode(&graph, "RandomUniform", "random");
  AddNode(&graph, "VarHandleOp", "anonymous", tensorflow::ResourceHandle::ANONYMOUS_NAME);
  AddNode(&graph, "MutexV2", "mutex");
  const Findings found = FindHoldings(graph);
  EXPECT_EQ(found.obstacle, "");
  EXPECT_TRUE(found.holdings.empty());
}

TEST(Holdings, BytesThatDoNotMatchTheirShapeAreRefused) {
  Tensor tensor;
  EXPECT_TRUE(MakeTensor(tensorflow::DT_FLOAT, {2, 3}, 24, &tensor).ok());
  EXPECT_FALSE(MakeTensor(tensorflow::DT_FLOAT, {2, 3}, 25, &tensor).ok());
  EXPECT_FALSE(MakeTensor(tensorflow::DT_FLOAT, {UINT64_MAX, 2}, 24, &tensor).ok());
  EXPECT_FALSE(MakeTensor(tensorflow::DT_FLOAT, {INT64_MAX, INT64_MAX}, 24, &tensor).ok());
  EXPECT_FALSE(MakeTensor(tensorflow::DT_RESOURCE, {}, 8, &tensor).ok());
  EXPECT_FALSE(MakeTensor(static_cast<DataType>(12345), {}, 8, &tensor).ok());
  EXPECT_FALSE(ParseTensor("none", &tensor).ok());
  const auto device = MakeDevice();
  EXPECT_FALSE(RestoreHolding(device.get(), VariableOf("rows"), {tensor, tensor}).ok());
  EXPECT_FALSE(
      RestoreHolding(device.get(), ReferenceOf("old", tensorflow::DT_FLOAT, {1}), {TensorOf<int64_t>({1}, 1)}).ok());
}

TEST(Inventory, MakesAgainWhatTheLatestGraphHasTold) {
  Inventory inventory;
  WriteMarks* marks = inventory.Add(ReferenceOf("v", tensorflow::DT_FLOAT, TensorShape({6, 4})));
  EXPECT_EQ(inventory.Add(ReferenceOf("v", tensorflow::DT_INT64, TensorShape({2}))), marks);
  ASSERT_EQ(inventory.holdings().size(), 1u);
  const auto [holding, same] = inventory.holdings()[0];
  EXPECT_EQ(same, marks);
  EXPECT_EQ(holding.node.attr().at("dtype").type(), tensorflow::DT_INT64);
}

TEST(Inventory, KeepsWhatGraphsHaveToldAndTheFirstObstacle) {
  Inventory inventory;
  tensorflow::GraphDef graph;
  AddNode(&graph, "VarHandleOp", "one", "rows");
  AddNode(&graph, "VarHandleOp", "two", "rows");
  EXPECT_FALSE(inventory.Learn(graph, true));
  EXPECT_EQ(inventory.holdings().size(), 1u);
  EXPECT_EQ(inventory.obstacle(), "");
  AddNode(&graph, "FIFOQueueV2", "queue", "q");
  EXPECT_TRUE(inventory.Learn(graph, true));
  EXPECT_FALSE(inventory.Learn(graph, true));
  EXPECT_FALSE(inventory.SetObstacle("another"));
  EXPECT_EQ(inventory.obstacle(), "the FIFOQueueV2 q");
}

}  // namespace
}  // namespace fusewire::tf
