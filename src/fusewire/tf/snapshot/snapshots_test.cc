// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Tests: snapshot/state_file.cc, snapshot/folder.cc
#include "fusewire/tf/snapshot/snapshots.h"
#include "fusewire/tf/snapshot/folder_test.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tensorflow/core/common_runtime/device_factory.h>
#include <tensorflow/core/framework/resource_mgr.h>
#include <tensorflow/core/framework/resource_var.h>
#include <tensorflow/core/framework/tensor_util.h>
#include <tensorflow/core/public/session_options.h>
#include "fusewire/base/clock.h"
#include "fusewire/base/log.h"
#include "fusewire/tf/snapshot/state_file.h"
#include "fusewire/tf/state/devices.h"

namespace fusewire::tf {
namespace {

namespace fs = std::filesystem;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using testing::HasSubstr;

class Log {
 public:
  Log() {
    SetLogSink([](LogLevel, const char* line, void* text) { *static_cast<std::string*>(text) += line; }, &text_);
  }
  ~Log() { SetLogSink(nullptr, nullptr); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string ReadAll(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void WriteAll(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

Holding VariableOf(const std::string& name) {
  Holding holding;
  holding.device = "CPU:0";
  holding.name = name;
  return holding;
}

Tensor Filled(int64_t count, float value) {
  Tensor tensor(tensorflow::DT_FLOAT, TensorShape({count}));
  tensor.flat<float>().setConstant(value);
  return tensor;
}

tensorflow::GraphDef GraphOf(const std::vector<std::string>& variables, const std::string& queue = "") {
  tensorflow::GraphDef graph;
  for (const std::string& name : variables) {
    tensorflow::NodeDef* node = graph.add_node();
    node->set_name(name);
    node->set_op(name == queue ? "FIFOQueueV2" : "VarHandleOp");
    node->set_device("/job:ps/replica:0/task:3/device:CPU:0");
    (*node->mutable_attr())["shared_name"].set_s(name);
  }
  return graph;
}

// ---- data files ----

class StateFileTest : public testing::Test {
 protected:
  StateFileTest()
      : device_(tensorflow::DeviceFactory::NewDevice("CPU", tensorflow::SessionOptions(), "/job:ps/replica:0/task:3")) {
    file_.generation = 1;
  }
  void Write(const std::vector<Holding>& holdings) {
    std::unique_ptr<StateFileSink> file;
    ASSERT_TRUE(StateFileSink::Create(Env(), Path(), &file).ok());
    StateWriter writer(file.get());
    ASSERT_TRUE(writer.AddTitle(EncodeTitle("ps:3", 1)).ok());
    for (const Holding& holding : holdings) {
      StateWriter::Added added;
      TfStatus status = writer.Add(device_.get(), holding, &added);
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_EQ(added.has_value, holding.name != "none");
    }
    ASSERT_TRUE(file->Close().ok());
    file_.bytes = writer.bytes();
    file_.crc = writer.crc();
  }
  TfStatus Read(HeldState* state) { return ReadState(Env(), Path(), "ps:3", file_, state); }
  // A file of these frames.
  void WriteFrames(const std::vector<std::pair<StateFrameKind, std::string>>& frames) {
    std::string file;
    file_.crc = 0;
    for (const auto& [kind, content] : frames) {
      AppendStateFrame(kind, content, &file_.crc, &file);
      file += content;
    }
    file_.bytes = file.size();
    WriteAll(Path(), file);
  }
  static std::string HeadOf(const std::string& name, uint64_t elements) {
    HoldingHead head;
    const std::string device = "CPU:0";
    head.kind = 1;
    head.device = device;
    head.name = name;
    head.tensors = {{tensorflow::DT_FLOAT, {elements}, 4 * elements}};
    std::string out;
    AppendHoldingHead(head, &out);
    return out;
  }
  static tensorflow::Env* Env() { return tensorflow::Env::Default(); }
  std::string Path() const { return folder_.path() / "state"; }

  TemporaryFolder folder_;
  std::unique_ptr<tensorflow::Device> device_;
  StateFile file_;
};

TEST_F(StateFileTest, HoldsWhatWasThere) {
  ASSERT_TRUE(RestoreHolding(device_.get(), VariableOf("large"), {Filled(1 << 20, 3)}).ok());  // several pieces
  ASSERT_TRUE(RestoreHolding(device_.get(), VariableOf("small"), {Filled(0, 0)}).ok());
  Write({VariableOf("large"), VariableOf("none"), VariableOf("small")});
  HeldState held;
  TfStatus read = Read(&held);
  ASSERT_TRUE(read.ok()) << read;
  ASSERT_EQ(held.size(), 2u);
  EXPECT_EQ(held[VariableOf("large")].tensors[0].flat<float>()((1 << 20) - 1), 3);
  EXPECT_EQ(held[VariableOf("small")].tensors[0].NumElements(), 0);
}

TEST_F(StateFileTest, IsRefusedWhenCutOffAtAnyByteOrWithAnyBitChanged) {
  ASSERT_TRUE(RestoreHolding(device_.get(), VariableOf("rows"), {Filled(9, 1)}).ok());
  Write({VariableOf("rows")});
  const std::string whole = ReadAll(Path());
  HeldState held;
  ASSERT_TRUE(Read(&held).ok());
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    WriteAll(Path(), whole.substr(0, bytes));
    EXPECT_FALSE(Read(&held).ok()) << bytes;
  }
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string changed = whole;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    WriteAll(Path(), changed);
    EXPECT_FALSE(Read(&held).ok()) << bit;
  }
}

TEST_F(StateFileTest, OfAnotherTaskOrGenerationIsRefused) {
  Write({VariableOf("none")});
  HeldState held;
  ASSERT_TRUE(Read(&held).ok());
  file_.generation = 2;
  EXPECT_FALSE(Read(&held).ok());
}

TEST_F(StateFileTest, OneThatWasDroppedIsNotThere) {
  const std::string title = EncodeTitle("ps:3", 1), four(4, '\0');
  WriteFrames({{StateFrameKind::kTitle, title},
               {StateFrameKind::kHead, HeadOf("rows", 2)},
               {StateFrameKind::kPiece, four},
               {StateFrameKind::kDrop, ""},
               {StateFrameKind::kHead, HeadOf("rows", 1)},
               {StateFrameKind::kPiece, four}});
  HeldState held;
  TfStatus read = Read(&held);
  ASSERT_TRUE(read.ok()) << read;
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[VariableOf("rows")].tensors[0].NumElements(), 1);
}

TEST_F(StateFileTest, WithFramesInAnotherOrderIsRefused) {
  const std::string title = EncodeTitle("ps:3", 1), four(4, '\0');
  const std::pair<StateFrameKind, std::string> begin{StateFrameKind::kTitle, title},
      head{StateFrameKind::kHead, HeadOf("rows", 1)}, piece{StateFrameKind::kPiece, four};
  HeldState held;
  WriteFrames({begin, head, piece});
  EXPECT_TRUE(Read(&held).ok());
  for (const auto& frames : std::vector<std::vector<std::pair<StateFrameKind, std::string>>>{
           {head, piece},                                                        // no title
           {begin, begin, head, piece},                                          // two
           {begin, piece},                                                       // no head
           {begin, head},                                                        // no content
           {begin, head, head, piece},                                           // half a variable
           {begin, head, piece, piece},                                          // too much
           {begin, {StateFrameKind::kHead, HeadOf("rows", 1 << 30)}, piece}}) {  // larger than the file
    WriteFrames(frames);
    EXPECT_FALSE(Read(&held).ok());
  }
}

// ---- snapshots of a task ----

class SnapshotsTest : public testing::Test {
 protected:
  SnapshotsTest() {
    def_.set_job_name("ps");
    def_.set_task_index(3);
  }
  int64_t every_ns_ = 3600 * kSecondNs;
  std::unique_ptr<Snapshots> Open(const std::string& cluster = "default") {
    std::unique_ptr<Snapshots> snapshots;
    TfStatus opened = Snapshots::Open({folder_.path(), every_ns_, cluster}, def_, &snapshots);
    EXPECT_TRUE(opened.ok()) << opened;
    return snapshots;
  }
  // What a restart would have now. The folder keeps its owner.
  std::unique_ptr<Snapshots> OpenCopy() {
    copies_.push_back(std::make_unique<TemporaryFolder>());
    fs::copy(folder_.path(), copies_.back()->path(), fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    std::unique_ptr<Snapshots> snapshots;
    TfStatus opened = Snapshots::Open({copies_.back()->path(), 3600 * kSecondNs, "default"}, def_, &snapshots);
    EXPECT_TRUE(opened.ok()) << opened;
    return snapshots;
  }
  static void Set(Snapshots* snapshots, const std::string& name, float value) {
    tensorflow::ResourceMgr* resources = snapshots->devices()->HostCPU()->resource_manager();
    resources->Delete<tensorflow::Var>("ps", name).IgnoreError();
    EXPECT_TRUE(RestoreHolding(snapshots->devices()->HostCPU(), VariableOf(name), {Filled(3, value)}).ok());
    snapshots->inventory().MarkAll();
  }
  // A variable of rows; each number of these rows becomes `value`, as a sparse update makes it.
  static void SetRows(Snapshots* snapshots, const std::vector<int64_t>& rows, float value) {
    tensorflow::Var* found = nullptr;
    tensorflow::ResourceMgr* resources = snapshots->devices()->HostCPU()->resource_manager();
    ASSERT_TRUE(resources->Lookup<tensorflow::Var>("ps", "rows", &found).ok());
    TfRef<tensorflow::Var> variable(found);
    for (int64_t row : rows) variable->tensor()->flat_outer_dims<float>().chip<0>(row).setConstant(value);
    Tensor indices(tensorflow::DT_INT64, TensorShape({static_cast<int64_t>(rows.size())}));
    std::copy(rows.begin(), rows.end(), indices.flat<int64_t>().data());
    snapshots->inventory().MarksOf(VariableOf("rows"))->Rows(indices);
  }
  static Tensor TheRows(Snapshots* snapshots) {
    tensorflow::Var* found = nullptr;
    tensorflow::ResourceMgr* resources = snapshots->devices()->HostCPU()->resource_manager();
    if (!resources->Lookup<tensorflow::Var>("ps", "rows", &found).ok()) return Tensor();
    TfRef<tensorflow::Var> variable(found);
    return tensorflow::tensor::DeepCopy(*variable->tensor());
  }
  void ExpectRestored(const Tensor& rows) {
    const Tensor restored = TheRows(OpenCopy().get());
    ASSERT_EQ(restored.shape(), rows.shape());
    EXPECT_EQ(restored.tensor_data(), rows.tensor_data());
  }
  // It holds 1000 rows of 4 numbers, which were copied, and have marks.
  std::unique_ptr<Snapshots> OpenWithRows() {
    auto snapshots = Open();
    snapshots->Learn(GraphOf({"rows"}), true);
    Tensor zeros(tensorflow::DT_FLOAT, TensorShape({1000, 4}));
    zeros.flat<float>().setZero();
    EXPECT_TRUE(RestoreHolding(snapshots->devices()->HostCPU(), VariableOf("rows"), {std::move(zeros)}).ok());
    Write(snapshots.get());
    Write(snapshots.get());  // two copies of everything
    return snapshots;
  }
  // 0: it is not there.
  static float Get(Snapshots* snapshots, const std::string& name) {
    tensorflow::Var* found = nullptr;
    tensorflow::ResourceMgr* resources = snapshots->devices()->HostCPU()->resource_manager();
    if (!resources->Lookup<tensorflow::Var>("ps", name, &found).ok()) return 0;
    TfRef<tensorflow::Var> variable(found);
    return variable->tensor()->flat<float>()(2);
  }
  static void Write(Snapshots* snapshots) {
    TfStatus written = snapshots->Write();
    EXPECT_TRUE(written.ok()) << written;
  }
  // A task that has written 1, and then 2. Returns its state's number.
  uint64_t WriteTwo() {
    auto snapshots = Open();
    snapshots->Learn(GraphOf({"rows", "later"}), true);
    for (float value : {1, 2}) {
      Set(snapshots.get(), "rows", value);
      Write(snapshots.get());
    }
    return StateOf(*snapshots->devices());
  }
  // Also if another server has written it.
  fs::path File(int generation, const std::string& ending) const {
    const std::string begin = "00000000000" + std::to_string(generation) + ".";
    for (const auto& file : fs::directory_iterator(folder_.path() / "ps_3")) {
      const std::string name = file.path().filename();
      if (name.substr(0, begin.size()) == begin && name.size() > ending.size() &&
          name.substr(name.size() - ending.size()) == ending)
        return file.path();
    }
    return folder_.path() / "ps_3" / "none";
  }
  // Where this one will write it.
  fs::path NextFile(const Snapshots& snapshots, uint64_t generation, const std::string& ending) const {
    std::string name = SnapshotFolder::ManifestName({snapshots.owner().epoch, snapshots.owner().holder}, generation);
    return folder_.path() / "ps_3" / name.replace(name.rfind('.'), std::string::npos, ending);
  }
  // Of snapshots.
  size_t Files() const {
    size_t count = 0;
    for (const auto& file : fs::directory_iterator(folder_.path() / "ps_3"))
      count += file.path().filename().string().substr(0, 5) != "owner";
    return count;
  }
  static void Damage(const fs::path& path) {
    std::string bytes = ReadAll(path);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    WriteAll(path, bytes);
  }

  TemporaryFolder folder_;
  std::vector<std::unique_ptr<TemporaryFolder>> copies_;
  tensorflow::ServerDef def_;
};

TEST_F(SnapshotsTest, ATaskGoesOnWithItsVariablesAndItsIncarnation) {
  const uint64_t state = WriteTwo();
  auto again = Open();
  EXPECT_EQ(Get(again.get(), "rows"), 2);
  EXPECT_EQ(StateOf(*again->devices()), state);
  // Before any graph has told what it holds.
  Set(again.get(), "rows", 3);
  Write(again.get());
  auto once_more = Open();
  EXPECT_EQ(Get(once_more.get(), "rows"), 3);
  EXPECT_EQ(StateOf(*once_more->devices()), state);
}

TEST_F(SnapshotsTest, WithoutASnapshotItIsAnotherState) {
  const auto first = Open(), second = Open();
  EXPECT_NE(StateOf(*first->devices()), StateOf(*second->devices()));
  second->Learn(GraphOf({"rows"}), true);
  Write(second.get());  // it holds nothing yet
  EXPECT_EQ(Files(), 0u);
}

TEST_F(SnapshotsTest, WithoutWritesNoDataFileIsWritten) {
  auto snapshots = Open();
  snapshots->Learn(GraphOf({"rows"}), true);
  Set(snapshots.get(), "rows", 1);
  for (int turn = 0; turn < 5; ++turn) Write(snapshots.get());
  EXPECT_EQ(Files(), 5u);
  EXPECT_TRUE(fs::exists(File(5, ".manifest")));
  EXPECT_TRUE(fs::exists(File(4, ".manifest")));
  EXPECT_TRUE(fs::exists(File(2, ".state")));
  EXPECT_TRUE(fs::exists(File(1, ".manifest")));
  EXPECT_TRUE(fs::exists(File(1, ".state")));
  EXPECT_EQ(Get(Open().get(), "rows"), 1);
}

TEST_F(SnapshotsTest, OfSparseUpdatesOnlyTheirRowsAreWritten) {
  auto snapshots = OpenWithRows();
  SetRows(snapshots.get(), {3, 999, 3, 64}, 7);
  Write(snapshots.get());
  EXPECT_LT(fs::file_size(File(3, ".state")), 300u);
  EXPECT_GT(fs::file_size(File(2, ".state")), 16000u);
  SetRows(snapshots.get(), {0, 3}, 8);
  Write(snapshots.get());
  ExpectRestored(TheRows(snapshots.get()));
}

TEST_F(SnapshotsTest, RowsThatAWriterMarksBeforeTheyAreCountedAreAWholeVariable) {
  auto snapshots = OpenWithRows();
  SetRows(snapshots.get(), {3}, 7);
  snapshots->inventory().MarksOf(VariableOf("rows"))->Whole();
  Write(snapshots.get());
  EXPECT_GT(fs::file_size(File(3, ".state")), 16000u);
  SetRows(snapshots.get(), {4}, 7);
  Tensor out_of_range(int64_t{5000});
  snapshots->inventory().MarksOf(VariableOf("rows"))->Rows(out_of_range);
  Write(snapshots.get());
  EXPECT_GT(fs::file_size(File(4, ".state")), 16000u);
  ExpectRestored(TheRows(snapshots.get()));
}

TEST_F(SnapshotsTest, AVariableOfAnotherShapeIsWrittenWhole) {
  auto snapshots = OpenWithRows();
  SetRows(snapshots.get(), {3}, 7);
  Set(snapshots.get(), "rows", 5);  // three numbers now
  Write(snapshots.get());
  Tensor indices(int64_t{1});
  snapshots->inventory().MarksOf(VariableOf("rows"))->Rows(indices);
  Write(snapshots.get());
  ExpectRestored(TheRows(snapshots.get()));
}

TEST_F(SnapshotsTest, OneThatFailedIsFollowedByACopyOfEverything) {
  auto snapshots = OpenWithRows();
  SetRows(snapshots.get(), {3}, 7);
  fs::create_symlink("/dev/full", NextFile(*snapshots, 3, ".state"));
  EXPECT_FALSE(snapshots->Write().ok());
  Write(snapshots.get());
  EXPECT_GT(fs::file_size(File(4, ".state")), 16000u);
  ExpectRestored(TheRows(snapshots.get()));
}

TEST_F(SnapshotsTest, WhenIncrementsExceedTheStateEverythingIsCopiedAgain) {
  auto snapshots = OpenWithRows();
  std::vector<int64_t> rows(400);
  std::iota(rows.begin(), rows.end(), 0);
  for (int turn = 3; turn <= 6; ++turn) {
    SetRows(snapshots.get(), rows, static_cast<float>(turn));
    Write(snapshots.get());
  }
  // 400 rows three times exceed 1000.
  EXPECT_LT(fs::file_size(File(5, ".state")), 8000u);
  EXPECT_GT(fs::file_size(File(6, ".state")), 16000u);
  EXPECT_EQ(Files(), 7u);  // manifests 5 and 6, and the data files from 2 on
  Damage(File(6, ".state"));
  auto again = Open();
  EXPECT_EQ(TheRows(again.get()).flat<float>()(0), 5);
}

TEST_F(SnapshotsTest, ADamagedCopyOfEverythingLeavesTheOneBefore) {
  auto snapshots = OpenWithRows();
  std::vector<int64_t> rows(900);
  std::iota(rows.begin(), rows.end(), 0);
  for (int turn = 3; turn <= 7; ++turn) {
    SetRows(snapshots.get(), turn == 7 ? std::vector<int64_t>{5} : rows, static_cast<float>(turn));
    Write(snapshots.get());
  }
  // 2: all; 3 and 4: rows; 5: all; 6 and 7: rows.
  Damage(File(5, ".state"));
  auto again = Open();
  EXPECT_EQ(TheRows(again.get()).flat<float>()(0), 4);
}

TEST_F(SnapshotsTest, AnyMixOfWritesComesBack) {
  const auto seed = static_cast<unsigned>(Clock::Real()->NowNs());
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  auto snapshots = OpenWithRows();
  for (int turn = 0; turn < 60; ++turn) {
    std::vector<int64_t> rows(random() % 200);
    for (int64_t& row : rows) row = static_cast<int64_t>(random() % 1000);
    SetRows(snapshots.get(), rows, static_cast<float>(random() % 1000));
    if (random() % 3 == 0) Write(snapshots.get());
    if (random() % 15 != 0) continue;
    Write(snapshots.get());
    const Tensor expected = TheRows(snapshots.get());
    ExpectRestored(expected);
    if (random() % 2 == 0) snapshots = Open();
  }
}

TEST_F(SnapshotsTest, ADamagedOneIsPassedOver) {
  for (const char* ending : {".state", ".manifest"}) {
    const uint64_t state = WriteTwo();
    const int newest = ending == std::string(".state") ? 2 : 4;
    Damage(File(newest, ending));
    Log log;
    auto again = Open();
    EXPECT_EQ(Get(again.get(), "rows"), 1);
    EXPECT_EQ(StateOf(*again->devices()), state);
    EXPECT_THAT(log.text(), HasSubstr("ps:3: its snapshot " + std::to_string(newest)));
    EXPECT_THAT(log.text(), HasSubstr("goes on with 1 variables"));
    // The damaged one is not the second that is kept.
    Write(again.get());
    EXPECT_FALSE(fs::exists(File(newest, ".manifest")));
    EXPECT_TRUE(fs::exists(File(newest - 1, ".manifest")));
    fs::remove_all(folder_.path() / "ps_3");
    if (newest == 2) {  // so that numbers go on
      fs::create_directory(folder_.path() / "ps_3");
      WriteAll(folder_.path() / "ps_3" / "000000000002.state", "");
    }
  }
}

TEST_F(SnapshotsTest, WithoutAReadableSnapshotItStartsEmpty) {
  const uint64_t state = WriteTwo();
  Damage(File(1, ".state"));
  fs::resize_file(File(2, ".state"), fs::file_size(File(2, ".state")) - 1);
  Log log;
  auto again = Open();
  EXPECT_EQ(Get(again.get(), "rows"), 0);
  EXPECT_NE(StateOf(*again->devices()), state);
  EXPECT_THAT(log.text(), HasSubstr("ps:3: it starts without its variables, because none of its snapshots in"));
}

TEST_F(SnapshotsTest, ThoseOfAnotherClusterOrTaskAreNotTaken) {
  WriteTwo();
  Log log;
  EXPECT_EQ(Get(Open("another").get(), "rows"), 0);
  EXPECT_THAT(log.text(), HasSubstr("it is a snapshot of the cluster \"default\", and this is \"another\""));
  def_.set_task_index(4);
  fs::rename(folder_.path() / "ps_3", folder_.path() / "ps_4");
  EXPECT_EQ(Get(Open().get(), "rows"), 0);
  EXPECT_THAT(log.text(), HasSubstr("it is a snapshot of ps:3"));
}

TEST_F(SnapshotsTest, AFullDiskCostsASnapshotAndNothingElse) {
  auto snapshots = Open();
  snapshots->Learn(GraphOf({"rows"}), true);
  Set(snapshots.get(), "rows", 1);
  Write(snapshots.get());
  fs::create_symlink("/dev/full", NextFile(*snapshots, 2, ".state"));
  EXPECT_FALSE(snapshots->Write().ok());
  fs::create_symlink("/dev/full", NextFile(*snapshots, 3, ".manifest.new"));
  EXPECT_FALSE(snapshots->Write().ok());
  EXPECT_EQ(Get(OpenCopy().get(), "rows"), 1);
  Set(snapshots.get(), "rows", 2);
  Write(snapshots.get());
  EXPECT_EQ(Get(OpenCopy().get(), "rows"), 2);
  EXPECT_EQ(Files(), 4u);
}

TEST_F(SnapshotsTest, AFolderThatIsGoneComesBack) {
  auto snapshots = Open();
  snapshots->Learn(GraphOf({"rows"}), true);
  Set(snapshots.get(), "rows", 1);
  Write(snapshots.get());
  fs::remove_all(folder_.path());
  WriteAll(folder_.path(), "a file in its place");
  EXPECT_FALSE(snapshots->Write().ok());
  fs::remove(folder_.path());
  Write(snapshots.get());
  EXPECT_EQ(Get(OpenCopy().get(), "rows"), 1);
}

TEST_F(SnapshotsTest, ATaskWithAQueueHasNone) {
  WriteTwo();
  Log log;
  auto snapshots = Open();
  EXPECT_EQ(Get(snapshots.get(), "rows"), 2);
  snapshots->Learn(GraphOf({"rows", "sync_token_q"}, "sync_token_q"), true);
  snapshots->Learn(GraphOf({"rows", "sync_token_q"}, "sync_token_q"), true);
  EXPECT_THAT(log.text(), HasSubstr("ps:3: it keeps no snapshots, because it holds the FIFOQueueV2 sync_token_q"));
  EXPECT_EQ(log.text().find("keeps no"), log.text().rfind("keeps no"));
  snapshots->Start({});
  const int64_t deadline_ns = Clock::Real()->NowNs() + 10 * kSecondNs;
  while (Files() > 0 && Clock::Real()->NowNs() < deadline_ns) std::this_thread::yield();
  snapshots->Stop();
  EXPECT_EQ(Files(), 0u);  // a restart is as without snapshots
  Write(snapshots.get());
  EXPECT_FALSE(fs::exists(File(3, ".manifest")));
}

TEST_F(SnapshotsTest, TheRunsThatHaveEndedComeBackToo) {
  every_ns_ = 0;  // when the test says
  auto snapshots = Open();
  snapshots->Learn(GraphOf({"rows"}), true);
  Set(snapshots.get(), "rows", 1);
  bool may_collect = false;
  Snapshots::Hooks hooks;
  hooks.collect = [&may_collect](std::vector<KeptClient>* clients) {
    clients->push_back({5, 3, {{4, true, "head", {"body"}}}});
    return may_collect ? TfStatus() : absl::DeadlineExceededError("a run did not end");
  };
  snapshots->Start(std::move(hooks));
  EXPECT_TRUE(absl::IsDeadlineExceeded(snapshots->Write()));
  EXPECT_FALSE(fs::exists(File(1, ".manifest")));
  may_collect = true;
  Write(snapshots.get());
  snapshots->Stop();
  auto again = Open();
  ASSERT_EQ(again->clients().size(), 1u);
  EXPECT_EQ(again->clients()[0].client, 5u);
  EXPECT_EQ(again->clients()[0].runs[0].body, std::vector<std::string>{"body"});
}

}  // namespace
}  // namespace fusewire::tf
