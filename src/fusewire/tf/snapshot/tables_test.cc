// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Tables in snapshots and moves: what was written is copied by its keys.
#include <filesystem>
#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "fusewire/tf/snapshot/folder_test.h"
#include "fusewire/tf/snapshot/snapshots.h"

namespace fusewire::tf {
namespace {

using tensorflow::Tensor;
using tensorflow::TensorShape;
using Rows = std::map<int64_t, std::pair<float, float>>;

Holding TableNamed(const std::string& op, tensorflow::DataType keys, tensorflow::DataType values) {
  tensorflow::NodeDef node;
  node.set_name("table");
  node.set_op(op);
  node.set_device("/job:ps/task:3/device:CPU:0");
  (*node.mutable_attr())["shared_name"].set_s("table");
  (*node.mutable_attr())["key_dtype"].set_type(keys);
  (*node.mutable_attr())["value_dtype"].set_type(values);
  if (op == "MutableHashTableOfTensorsV2")
    TensorShape({2}).AsProto((*node.mutable_attr())["value_shape"].mutable_shape());
  Holding holding;
  EXPECT_TRUE(HoldingOf(node, &holding));
  return holding;
}

Holding TheTable() { return TableNamed("MutableHashTableOfTensorsV2", tensorflow::DT_INT64, tensorflow::DT_FLOAT); }

Tensor KeysOf(const std::vector<int64_t>& keys) {
  Tensor tensor(tensorflow::DT_INT64, TensorShape({static_cast<int64_t>(keys.size())}));
  std::copy(keys.begin(), keys.end(), tensor.flat<int64_t>().data());
  return tensor;
}

TableRows TensorsOf(const Rows& rows, const std::vector<int64_t>& gone) {
  std::vector<int64_t> keys;
  Tensor values(tensorflow::DT_FLOAT, TensorShape({static_cast<int64_t>(rows.size()), 2}));
  for (const auto& [key, row] : rows) {
    values.matrix<float>()(static_cast<int64_t>(keys.size()), 0) = row.first;
    values.matrix<float>()(static_cast<int64_t>(keys.size()), 1) = row.second;
    keys.push_back(key);
  }
  return {KeysOf(keys), values, KeysOf(gone)};
}

Rows RowsOf(tensorflow::Device* device) {
  std::unique_ptr<HoldingReader> reader;
  EXPECT_TRUE(ReadHolding(device, TheTable(), &reader).ok());
  std::vector<HoldingReader::Layout> layouts;
  EXPECT_TRUE(reader->Begin(&layouts).ok());
  if (layouts.size() != 2) return {};
  std::vector<int64_t> keys(layouts[0].bytes / sizeof(int64_t));
  std::vector<std::pair<float, float>> values(layouts[1].bytes / 8);
  EXPECT_TRUE(reader->Read(0, 0, Bytes(keys.data(), layouts[0].bytes)));
  EXPECT_TRUE(reader->Read(1, 0, Bytes(values.data(), layouts[1].bytes)));
  Rows rows;
  for (size_t i = 0; i < keys.size(); ++i) rows[keys[i]] = values[i];
  return rows;
}

TEST(TablesWithKeys, AreThoseOfNumbersThatAreWrittenByKeys) {
  EXPECT_TRUE(HasKeys(TheTable()));
  EXPECT_TRUE(HasKeys(TableNamed("MutableHashTableV2", tensorflow::DT_INT64, tensorflow::DT_INT32)));
  EXPECT_FALSE(HasKeys(TableNamed("HashTableV2", tensorflow::DT_INT64, tensorflow::DT_INT64)));
  EXPECT_FALSE(HasKeys(TableNamed("MutableHashTableV2", tensorflow::DT_STRING, tensorflow::DT_INT64)));
  EXPECT_FALSE(HasKeys(TableNamed("MutableHashTableV2", tensorflow::DT_INT64, tensorflow::DT_STRING)));
  Holding wide = TheTable();  // no frame could hold a row
  TensorShape({1 << 20}).AsProto((*wide.node.mutable_attr())["value_shape"].mutable_shape());
  EXPECT_FALSE(HasKeys(wide));
}

TEST(TablesWithKeys, HaveTheirKeysMarkedOnceTheWholeWasCopied) {
  WriteMarks marks;
  marks.Rows(KeysOf({5}));
  EXPECT_TRUE(marks.Take().is_whole);
  marks.SetKeys();
  for (int64_t key : {7, -5, 7, 6}) marks.Rows(KeysOf({key}));
  EXPECT_EQ(marks.Take().keys, (std::vector<int64_t>{-5, 6, 7}));
  EXPECT_TRUE(marks.Take().empty());
  marks.Rows(Tensor(1.0f));  // of another type
  EXPECT_TRUE(marks.Take().is_whole);
  // More than is worth it.
  const Tensor many = KeysOf(std::vector<int64_t>(300'000, 1));
  for (int i = 0; i < 4; ++i) marks.Rows(many);
  const WriteMarks::Taken taken = marks.Take();
  EXPECT_TRUE(taken.is_whole);
  EXPECT_TRUE(taken.keys.empty());
}

// ---- of a task ----

class TablesTest : public testing::Test {
 protected:
  TablesTest() {
    def_.set_job_name("ps");
    def_.set_task_index(3);
    snapshots_ = Open(folder_.path());
    for (int64_t key = 0; key < 10'000; ++key) rows_[key * key] = {static_cast<float>(key), 1};
    tensorflow::GraphDef graph;
    *graph.add_node() = TheTable().node;
    graph.mutable_node(0)->set_device("/job:ps/task:3/device:CPU:0");
    snapshots_->Learn(graph, true);
    EXPECT_NE(snapshots_->inventory().MarksOf(TheTable()), nullptr);
    TableRows all = TensorsOf(rows_, {});
    EXPECT_TRUE(RestoreHolding(device(), TheTable(), {all.keys, all.values}).ok());
  }
  std::unique_ptr<Snapshots> Open(const std::string& folder) {
    std::unique_ptr<Snapshots> snapshots;
    const TfStatus opened = Snapshots::Open({folder, 0, "default"}, def_, &snapshots);
    EXPECT_TRUE(opened.ok()) << opened;
    return snapshots;
  }
  // As operations of a step do it.
  void Change(const Rows& rows, const std::vector<int64_t>& gone) {
    const TableRows changes = TensorsOf(rows, gone);
    EXPECT_TRUE(RestoreHolding(device(), TheTable(), {}, {changes}).ok());
    WriteMarks* marks = snapshots_->inventory().MarksOf(TheTable());
    marks->Rows(changes.keys);
    marks->Rows(changes.gone);
    for (const auto& [key, row] : rows) rows_[key] = row;
    for (int64_t key : gone) rows_.erase(key);
  }
  // Of the newest data file.
  uint64_t WrittenBytes() {
    uint64_t newest = 0, bytes = 0;
    TfStatus written = snapshots_->Write();
    EXPECT_TRUE(written.ok()) << written;
    for (const auto& file : std::filesystem::directory_iterator(folder_.path() / "ps_3")) {
      const std::string name = file.path().filename();
      if (name.substr(0, 5) == "owner" || file.path().extension() != ".state") continue;
      const uint64_t generation = std::stoull(name);
      if (generation >= newest) bytes = file.file_size();
      newest = std::max(newest, generation);
    }
    return bytes;
  }
  Rows Restored() {
    const TemporaryFolder copy;
    std::filesystem::copy(folder_.path(), copy.path(), std::filesystem::copy_options::recursive);
    return RowsOf(Open(copy.path())->devices()->HostCPU());
  }
  tensorflow::Device* device() { return snapshots_->devices()->HostCPU(); }

  const TemporaryFolder folder_;
  tensorflow::ServerDef def_;
  std::unique_ptr<Snapshots> snapshots_;
  Rows rows_;
};

TEST_F(TablesTest, OnlyRowsThatWereWrittenAreInTheNextSnapshot) {
  EXPECT_GT(WrittenBytes(), 160'000u);
  EXPECT_GT(WrittenBytes(), 160'000u);  // two copies of everything
  Change({{4, {-1, -2}}, {7, {8, 9}}}, {9, 16, 12345});
  EXPECT_LT(WrittenBytes(), 1'000u);
  EXPECT_EQ(rows_.count(9), 0u);
  EXPECT_EQ(Restored(), rows_);
  Change({{9, {3, 3}}}, {7});  // back, and gone
  EXPECT_LT(WrittenBytes(), 1'000u);
  EXPECT_EQ(Restored(), rows_);
}

TEST_F(TablesTest, AnyMixOfWritesComesBack) {
  std::mt19937 random(5);
  for (int snapshot = 0; snapshot < 30; ++snapshot) {
    for (int step = 0; step < 3; ++step) {
      Rows rows;
      std::vector<int64_t> gone;
      for (int i = 0; i < 20; ++i) rows[random() % 300] = {static_cast<float>(random() % 100), -1};
      for (int i = 0; i < 5; ++i) gone.push_back(static_cast<int64_t>(random() % 300));
      Change(rows, gone);
    }
    WrittenBytes();
    if (snapshot % 7 == 6) {
      EXPECT_EQ(Restored(), rows_);
    }
  }
}

// ---- frames ----

class TableFrames : public testing::Test {
 protected:
  TableFrames() : reader_(1 << 20, &state_) { state_[TheTable()].tensors = {KeysOf({1}), Row(1, 2)}; }
  static Tensor Row(float one, float two) { return TensorsOf({{1, {one, two}}}, {}).values; }
  TfStatus Add(StateFrameKind kind, const std::string& content) {
    std::string frame;
    AppendStateFrame(kind, content, &crc_, &frame);
    return reader_.ReadAll(frame + content);
  }
  // A head with a tensor of values of this shape.
  static std::string Head(uint32_t type, std::vector<uint64_t> shape) {
    const std::string device = "CPU:0", name = "table";
    HoldingHead head;
    head.kind = static_cast<uint8_t>(HoldingKind::kTable);
    head.device = device;
    head.name = name;
    head.tensors = {{tensorflow::DT_INT64, {0}, 0}, {type, std::move(shape), 0}};
    std::string text;
    AppendHoldingHead(head, &text);
    return text;
  }
  static std::string Keyed(size_t keys, size_t gone, size_t content) {
    const std::string all_keys(keys * kKeyBytes, 'k'), all_gone(gone * kKeyBytes, 'g'), bytes(content, 'c');
    std::string text;
    AppendKeyedRows({all_keys, all_gone, bytes}, &text);
    return text;
  }

  HeldState state_;
  StateReader reader_;
  uint32_t crc_ = 0;
};

TEST_F(TableFrames, RowsThatFitAreTaken) {
  ASSERT_TRUE(Add(StateFrameKind::kPatch, Head(tensorflow::DT_FLOAT, {0, 2})).ok());
  ASSERT_TRUE(Add(StateFrameKind::kKeys, Keyed(3, 1, 24)).ok());
  ASSERT_TRUE(Add(StateFrameKind::kKeys, Keyed(0, 1, 0)).ok());
  const HeldValue& held = state_[TheTable()];
  ASSERT_EQ(held.changes.size(), 2u);
  EXPECT_EQ(held.changes[0].keys.NumElements(), 3);
  EXPECT_EQ(held.changes[0].values.shape(), TensorShape({3, 2}));
  EXPECT_EQ(held.changes[1].gone.NumElements(), 1);
  EXPECT_EQ(reader_.TakeChanged().size(), 1u);
}

TEST_F(TableFrames, RowsThatDoNotFitAreRefused) {
  EXPECT_FALSE(Add(StateFrameKind::kKeys, Keyed(1, 0, 8)).ok());  // of no table
  const uint64_t huge = uint64_t{1} << 40;
  for (const std::string& head :
       {Head(tensorflow::DT_FLOAT, {0, 3}), Head(tensorflow::DT_INT32, {0, 2}), Head(tensorflow::DT_FLOAT, {0}),
        Head(tensorflow::DT_FLOAT, {1, 2}), Head(tensorflow::DT_FLOAT, {}), Head(tensorflow::DT_STRING, {0, 2}),
        Head(tensorflow::DT_FLOAT, {0, huge, huge}), Head(tensorflow::DT_FLOAT, {0, 0})}) {
    EXPECT_FALSE(Add(StateFrameKind::kPatch, head).ok());
    EXPECT_FALSE(Add(StateFrameKind::kKeys, Keyed(1, 0, 8)).ok());
  }
  ASSERT_TRUE(Add(StateFrameKind::kPatch, Head(tensorflow::DT_FLOAT, {0, 2})).ok());
  EXPECT_FALSE(Add(StateFrameKind::kKeys, Keyed(1, 0, 12)).ok());
  EXPECT_FALSE(Add(StateFrameKind::kRows, std::string(9, '\1')).ok());
  state_.clear();
  EXPECT_FALSE(Add(StateFrameKind::kPatch, Head(tensorflow::DT_FLOAT, {0, 2})).ok());  // no earlier file has it
}

}  // namespace
}  // namespace fusewire::tf
