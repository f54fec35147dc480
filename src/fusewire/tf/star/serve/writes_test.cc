// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/serve/writes.h"

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <tensorflow/core/common_runtime/graph_constructor.h>
#include <tensorflow/core/framework/node_def_builder.h>

namespace fusewire::tf {
namespace {

using tensorflow::DT_FLOAT;
using tensorflow::DT_FLOAT_REF;
using tensorflow::DT_INT64;
using tensorflow::DT_RESOURCE;
using tensorflow::NodeDef;
using tensorflow::NodeDefBuilder;
using tensorflow::Tensor;
using tensorflow::TensorShape;

using Rows = std::vector<uint64_t>;

Tensor Indices(const std::vector<int64_t>& rows) {
  Tensor indices(DT_INT64, TensorShape({static_cast<int64_t>(rows.size())}));
  std::copy(rows.begin(), rows.end(), indices.flat<int64_t>().data());
  return indices;
}

// Variables "rows" and "slot", the reference "old", and operations that write them.
class WritesTest : public testing::Test {
 protected:
  WritesTest() {
    for (const char* name : {"rows", "slot"}) {
      Add(NodeDefBuilder(std::string(name) + "_handle", "VarHandleOp")
              .Attr("shared_name", name)
              .Attr("dtype", DT_FLOAT)
              .Attr("shape", TensorShape({100, 2})));
    }
    Add(NodeDefBuilder("old", "VariableV2").Attr("dtype", DT_FLOAT).Attr("shape", TensorShape({100, 2})));
    Add(NodeDefBuilder("value", "Placeholder").Attr("dtype", DT_FLOAT));
    Add(NodeDefBuilder("which", "Placeholder").Attr("dtype", DT_INT64));
    Add(NodeDefBuilder("given", "Placeholder").Attr("dtype", DT_RESOURCE));
  }
  void Add(NodeDefBuilder builder) {
    TfStatus added = builder.Finalize(graph_.add_node(), /*consume=*/true);
    EXPECT_TRUE(added.ok()) << added;
  }
  // Of the last node. All rows of everything have been copied before.
  std::unique_ptr<const Writes> Made() {
    EXPECT_FALSE(inventory_.Learn(graph_, true));
    for (const auto& one : inventory_.holdings()) {
      one.second->SetRows(100);
      one.second->Take();
    }
    tensorflow::GraphConstructorOptions options;
    TfStatus made = tensorflow::ConvertGraphDefToGraph(options, graph_, &built_);
    EXPECT_TRUE(made.ok()) << made;
    const std::string last = graph_.node(graph_.node_size() - 1).name();
    for (const tensorflow::Node* node : built_.op_nodes()) {
      if (node->name() == last) return Writes::Of(*node, &inventory_);
    }
    return nullptr;
  }
  WriteMarks::Taken Take(const std::string& name) {
    for (const auto& [holding, marks] : inventory_.holdings()) {
      if (holding.name == name) return marks->Take();
    }
    ADD_FAILURE() << name;
    return {};
  }

  tensorflow::GraphDef graph_;
  tensorflow::Graph built_{tensorflow::OpRegistry::Global()};
  Inventory inventory_;
};

TEST_F(WritesTest, ASparseUpdateWritesRowsOfItsVariables) {
  Add(NodeDefBuilder("update", "ResourceSparseApplyAdagrad")
          .Input("rows_handle", 0, DT_RESOURCE)
          .Input("slot_handle", 0, DT_RESOURCE)
          .Input("value", 0, DT_FLOAT)
          .Input("value", 0, DT_FLOAT)
          .Input("which", 0, DT_INT64));
  const auto writes = Made();
  ASSERT_NE(writes, nullptr);
  EXPECT_EQ(writes->indices(), 4);
  const Tensor indices = Indices({99, 3, 3});
  writes->Mark(&indices);
  for (const char* name : {"rows", "slot"}) {
    const WriteMarks::Taken taken = Take(name);
    EXPECT_FALSE(taken.is_whole);
    EXPECT_EQ(taken.rows, (Rows{3, 99}));
    EXPECT_TRUE(Take(name).empty());
  }
  EXPECT_TRUE(Take("old").empty());
}

TEST_F(WritesTest, SoDoesOneOfAReference) {
  Add(NodeDefBuilder("passed", "RefIdentity").Input("old", 0, DT_FLOAT_REF));
  Add(NodeDefBuilder("update", "ScatterSub")
          .Input("passed", 0, DT_FLOAT_REF)
          .Input("which", 0, DT_INT64)
          .Input("value", 0, DT_FLOAT));
  const auto writes = Made();
  ASSERT_NE(writes, nullptr);
  const Tensor indices = Indices({64});
  writes->Mark(&indices);
  EXPECT_EQ(Take("old").rows, Rows{64});
  EXPECT_TRUE(Take("rows").empty());
}

TEST_F(WritesTest, AnyOtherWritesItsVariableWhole) {
  Add(NodeDefBuilder("update", "AssignAddVariableOp").Input("rows_handle", 0, DT_RESOURCE).Input("value", 0, DT_FLOAT));
  const auto writes = Made();
  ASSERT_NE(writes, nullptr);
  EXPECT_EQ(writes->indices(), -1);
  writes->Mark(nullptr);
  EXPECT_TRUE(Take("rows").is_whole);
  EXPECT_TRUE(Take("slot").empty());
}

TEST_F(WritesTest, IndicesOfMoreThanOneDimensionAreNotRows) {
  Add(NodeDefBuilder("update", "ResourceScatterNdUpdate")
          .Input("rows_handle", 0, DT_RESOURCE)
          .Input("which", 0, DT_INT64)
          .Input("value", 0, DT_FLOAT));
  EXPECT_EQ(Made()->indices(), -1);
}

TEST_F(WritesTest, WithAHandleFromElsewhereItMayWriteEverything) {
  Add(NodeDefBuilder("update", "ResourceScatterAdd")
          .Input("given", 0, DT_RESOURCE)
          .Input("which", 0, DT_INT64)
          .Input("value", 0, DT_FLOAT)
          .Attr("dtype", DT_FLOAT));
  const auto writes = Made();
  EXPECT_EQ(writes->indices(), -1);
  writes->Mark(nullptr);
  for (const char* name : {"rows", "slot", "old"}) EXPECT_TRUE(Take(name).is_whole);
}

TEST_F(WritesTest, SoMayAFunctionWithState) {
  tensorflow::NameAttrList function;
  function.set_name("function");
  *graph_.mutable_library()->add_function()->mutable_signature() = [] {
    tensorflow::OpDef signature;
    signature.set_name("function");
    return signature;
  }();
  Add(NodeDefBuilder("call", "StatefulPartitionedCall")
          .Input(std::vector<NodeDefBuilder::NodeOut>{})
          .Attr("Tin", tensorflow::DataTypeVector{})
          .Attr("Tout", tensorflow::DataTypeVector{})
          .Attr("f", function));
  const auto writes = Made();
  ASSERT_NE(writes, nullptr);
  writes->Mark(nullptr);
  EXPECT_TRUE(Take("slot").is_whole);
}

TEST_F(WritesTest, WhatReadsOrDrawsWritesNothing) {
  Add(NodeDefBuilder("read", "ReadVariableOp").Input("rows_handle", 0, DT_RESOURCE).Attr("dtype", DT_FLOAT));
  EXPECT_EQ(Made(), nullptr);
  graph_.mutable_node()->RemoveLast();
  Add(NodeDefBuilder("shape", "Placeholder").Attr("dtype", DT_INT64));
  Add(NodeDefBuilder("random", "RandomUniform").Input("shape", 0, DT_INT64).Attr("dtype", DT_FLOAT));
  built_.Clear();
  EXPECT_EQ(Made(), nullptr);
}

TEST_F(WritesTest, SoDoesACheckpoint) {
  Add(NodeDefBuilder("text", "Placeholder").Attr("dtype", tensorflow::DT_STRING));
  Add(NodeDefBuilder("save", "SaveV2")
          .Input("text", 0, tensorflow::DT_STRING)
          .Input("text", 0, tensorflow::DT_STRING)
          .Input("text", 0, tensorflow::DT_STRING)
          .Input({{"value", 0, DT_FLOAT}}));
  EXPECT_EQ(Made(), nullptr);
}

TEST(WriteMarks, AreTheWholeUntilRowsAreCountedAndAfterAnotherCount) {
  WriteMarks marks;
  EXPECT_TRUE(marks.Take().is_whole);
  EXPECT_TRUE(marks.Take().empty());
  marks.Rows(Indices({1}));
  EXPECT_TRUE(marks.Take().is_whole);
  marks.SetRows(100);
  marks.Rows(Indices({1}));
  EXPECT_EQ(marks.Take().rows, Rows{1});
  marks.Rows(Indices({1, 100}));
  EXPECT_TRUE(marks.Take().is_whole);
  EXPECT_TRUE(marks.Take().empty());
  marks.Rows(Tensor(3.0F));
  EXPECT_TRUE(marks.Take().is_whole);
  marks.SetRows(101);
  EXPECT_TRUE(marks.Take().is_whole);
  EXPECT_TRUE(marks.Take().is_whole);
}

// Whatever a writer does between two marks of a row, the copier has its last value in the end.
TEST(WriteMarks, OfARowThatIsWrittenWhileItIsTakenAreNotLost) {
  constexpr size_t kRows = 100;
  WriteMarks marks;
  marks.SetRows(kRows);
  marks.Take();
  std::array<std::atomic<int64_t>, kRows> rows = {};
  std::array<int64_t, kRows> copied = {};
  const auto copy = [&] {
    for (uint64_t row : marks.Take().rows) copied[row] = rows[row].load(std::memory_order_relaxed);
  };
  std::atomic<bool> is_over{false};
  std::thread writer([&] {
    for (int64_t turn = 1; turn <= 20'000; ++turn) {
      const int64_t row = turn * 7 % static_cast<int64_t>(kRows);
      rows[static_cast<size_t>(row)].store(turn, std::memory_order_relaxed);
      marks.Rows(Indices({row}));
    }
    is_over = true;
  });
  while (!is_over) copy();
  writer.join();
  copy();
  for (size_t row = 0; row < kRows; ++row) EXPECT_EQ(copied[row], rows[row].load()) << row;
}

}  // namespace
}  // namespace fusewire::tf
