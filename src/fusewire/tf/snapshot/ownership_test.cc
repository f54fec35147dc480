// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Several servers of one task, which claim it, write snapshots, are frozen and wake, and die.
#include "fusewire/tf/snapshot/ownership.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tensorflow/core/framework/resource_mgr.h>
#include <tensorflow/core/framework/resource_var.h>
#include "fusewire/base/clock.h"
#include "fusewire/base/log.h"
#include "fusewire/base/mutex.h"
#include "fusewire/tf/snapshot/files_test.h"
#include "fusewire/tf/snapshot/snapshots.h"
#include "fusewire/tf/snapshot/turns_test.h"

namespace fusewire::tf {
namespace {

using testing::HasSubstr;

constexpr const char* kFolder = "held://job";

// One variable of one server.
class OneServer {
 public:
  explicit OneServer(Claim claim = Claim()) {
    tensorflow::ServerDef def;
    def.set_job_name("ps");
    def.set_task_index(3);
    TfStatus opened = Snapshots::Open({kFolder, 3600 * kSecondNs, "default"}, def, &snapshots_, std::move(claim));
    EXPECT_TRUE(opened.ok()) << opened;
    if (!snapshots_->is_elsewhere()) snapshots_->inventory().Add(Rows());
  }
  Snapshots& snapshots() { return *snapshots_; }
  Tenure tenure() const { return {snapshots_->owner().epoch, snapshots_->owner().holder}; }
  void Set(float value) {
    tensorflow::Device* device = snapshots_->devices()->HostCPU();
    device->resource_manager()->Delete<tensorflow::Var>("ps", Rows().name).IgnoreError();
    EXPECT_TRUE(RestoreHolding(device, Rows(), {tensorflow::Tensor(value)}).ok());
    snapshots_->inventory().MarkAll();
  }
  // 0: there is none.
  float Get() const {
    tensorflow::Var* found = nullptr;
    tensorflow::ResourceMgr* resources = snapshots_->devices()->HostCPU()->resource_manager();
    if (!resources->Lookup<tensorflow::Var>("ps", Rows().name, &found).ok()) return 0;
    TfRef<tensorflow::Var> variable(found);
    return variable->tensor()->scalar<float>()();
  }
  TfStatus Write(float value) {
    Set(value);
    return snapshots_->Write();
  }

 private:
  static Holding Rows() {
    Holding holding;
    holding.device = "CPU:0";
    holding.name = "rows";
    return holding;
  }
  std::unique_ptr<Snapshots> snapshots_;
};

class OwnershipTest : public testing::Test {
 protected:
  OwnershipTest() {
    HeldFiles::Get().Reset(nullptr);
    SetLogSink([](LogLevel, const char* line, void* text) { *static_cast<std::string*>(text) += line; }, &log_);
  }
  ~OwnershipTest() override {
    SetLogSink(nullptr, nullptr);
    HeldFiles::Get().Reset(nullptr);
  }
  static std::map<std::string, std::string> Contents() {
    std::map<std::string, std::string> contents;
    for (const auto& [path, content] : HeldFiles::Get().files()) contents[path] = *content;
    return contents;
  }
  static std::string OwnerPath(const Tenure& tenure) {
    for (const auto& [path, content] : HeldFiles::Get().files()) {
      FolderFile file;
      const bool is_ours = SnapshotFolder::Parse(path.substr(path.rfind('/') + 1), &file);
      if (is_ours && file.kind == FolderFileKind::kOwner && file.tenure == tenure) return path;
    }
    return "";
  }
  static Claim WithHolder(uint64_t holder) {
    Claim claim;
    claim.holder = holder;
    return claim;
  }

  std::string log_;
};

TEST_F(OwnershipTest, ASecondServerTakesTheTaskAndTheFirstLeavesItsFilesAlone) {
  OneServer first(WithHolder(77));
  EXPECT_EQ(first.tenure(), (Tenure{1, 77}));
  EXPECT_TRUE(first.Write(1).ok());
  EXPECT_TRUE(first.Write(2).ok());
  OneServer second(WithHolder(5));
  EXPECT_EQ(second.tenure(), (Tenure{2, 5}));
  EXPECT_EQ(second.Get(), 2);
  second.snapshots().SetAddress("10.0.0.5:4321");
  EXPECT_TRUE(second.Write(10).ok());
  const auto files = Contents();
  const TfStatus fenced = first.Write(3);
  EXPECT_TRUE(absl::IsFailedPrecondition(fenced));
  EXPECT_THAT(std::string(fenced.message()), HasSubstr("another server has ps:3 now: 10.0.0.5:4321, epoch 2"));
  EXPECT_FALSE(first.Write(4).ok());
  EXPECT_EQ(Contents(), files);
  EXPECT_TRUE(second.Write(11).ok());
  EXPECT_EQ(OneServer().Get(), 11);
}

TEST_F(OwnershipTest, ATaskThatIsServedElsewhereIsNotTaken) {
  OneServer first(WithHolder(77));
  EXPECT_TRUE(first.Write(1).ok());
  Claim claim;
  int asked = 0;
  claim.is_served = [&asked](const Owner& owner) {
    ++asked;
    return owner.holder == 77 && owner.epoch == 1 && owner.address == "10.0.0.5:4321" && owner.task == "ps:3";
  };
  {
    // Before its data port is open, there is nobody to ask.
    const auto files = Contents();
    OneServer early(claim);
    EXPECT_FALSE(early.snapshots().is_elsewhere());
    EXPECT_EQ(asked, 0);
    HeldFiles::Get().Reset(nullptr);
  }
  OneServer again(WithHolder(77));
  again.snapshots().SetAddress("10.0.0.5:4321");
  const auto files = Contents();
  OneServer second(claim);
  EXPECT_TRUE(second.snapshots().is_elsewhere());
  EXPECT_EQ(second.snapshots().owner().address, "10.0.0.5:4321");
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(Contents(), files);
  EXPECT_TRUE(again.Write(2).ok());
}

TEST_F(OwnershipTest, TheThreadOfTheFirstSaysThatItIsFencedOnce) {
  OneServer first(WithHolder(77)), second(WithHolder(5));
  Mutex mutex;
  CondVar come;
  std::vector<Owner> successors;
  Snapshots::Hooks hooks;
  hooks.yield = [&](const Owner& successor, bool has_moved) {
    EXPECT_FALSE(has_moved);
    MutexLock lock(mutex);
    successors.push_back(successor);
    come.NotifyAll();
  };
  first.snapshots().Start(std::move(hooks));
  const int64_t deadline_ns = Clock::Real()->NowNs() + 10 * kSecondNs;
  {
    MutexLock lock(mutex);
    while (successors.empty() && come.WaitUntil(mutex, deadline_ns)) {
    }
  }
  first.snapshots().Stop();
  ASSERT_EQ(successors.size(), 1u);
  EXPECT_EQ(successors[0].epoch, 2u);
  EXPECT_EQ(successors[0].holder, 5u);
  EXPECT_THAT(log_, HasSubstr("ps:3: it stops serving, since another server has taken this task within the last "));
  EXPECT_THAT(log_, HasSubstr("epoch 2 (here: epoch 1)"));
}

TEST_F(OwnershipTest, ADamagedOwnerFileStillHasItsEpoch) {
  OneServer first(WithHolder(77));
  first.snapshots().SetAddress("10.0.0.5:4321");
  HeldFiles::Get().files().at(OwnerPath({1, 77}))->resize(20);
  Claim claim;
  claim.is_served = [](const Owner&) { return true; };
  OneServer second(claim);
  EXPECT_FALSE(second.snapshots().is_elsewhere());  // nobody knows where to ask
  EXPECT_EQ(second.tenure().epoch, 2u);
  EXPECT_FALSE(first.Write(1).ok());
}

TEST_F(OwnershipTest, WithoutAnyOwnerFileTheEpochsOfSnapshotsCount) {
  auto first = std::make_unique<OneServer>(WithHolder(77));
  auto second = std::make_unique<OneServer>(WithHolder(78));
  EXPECT_TRUE(second->Write(1).ok());
  EXPECT_TRUE(HeldFiles::Get().DeleteFile(OwnerPath({2, 78}), nullptr).ok());
  OneServer third(WithHolder(5));
  EXPECT_EQ(third.tenure().epoch, 3u);
  EXPECT_EQ(third.Get(), 1);
  EXPECT_FALSE(second->Write(2).ok());
}

TEST_F(OwnershipTest, AServerThatClaimsAnEmptiedFolderHasTheTask) {
  OneServer first(WithHolder(77)), second(WithHolder(78));
  EXPECT_TRUE(second.Write(1).ok());
  HeldFiles::Get().Reset(nullptr);
  EXPECT_TRUE(second.Write(2).ok());  // nobody else was there
  EXPECT_NE(OwnerPath({2, 78}), "");
  HeldFiles::Get().Reset(nullptr);
  OneServer third(WithHolder(5));
  EXPECT_EQ(third.tenure().epoch, 1u);
  EXPECT_FALSE(second.Write(3).ok());
  EXPECT_TRUE(third.Write(4).ok());
}

TEST_F(OwnershipTest, AnotherClustersLivingServerKeepsItsFolder) {
  OneServer first(WithHolder(77));
  first.snapshots().SetAddress("10.0.0.5:4321");
  SnapshotFolder folder(tensorflow::Env::Default(), kFolder, "ps:3");
  Claim claim;
  bool is_served = true;
  claim.is_served = [&is_served](const Owner&) { return is_served; };
  Ownership other(folder, "ps:3", "another", claim);
  const TfStatus claimed = other.DoClaim();
  EXPECT_TRUE(absl::IsFailedPrecondition(claimed));
  EXPECT_THAT(std::string(claimed.message()),
              HasSubstr("it belongs to the cluster \"default\", whose ps:3 is served at 10.0.0.5:4321"));
  EXPECT_EQ(other.state(), Ownership::State::kUnclaimed);
  EXPECT_TRUE(first.Write(1).ok());
  is_served = false;
  EXPECT_TRUE(other.DoClaim().ok());
  EXPECT_EQ(other.state(), Ownership::State::kOwner);
}

TEST_F(OwnershipTest, ItIsTheSameOverAFileSystemOfTensorFlows) {
  SnapshotFolder folder(tensorflow::Env::Default(), "ram://ownership", "ps:3");
  Ownership first(folder, "ps:3", "default", WithHolder(77)), second(folder, "ps:3", "default", WithHolder(5));
  ASSERT_TRUE(first.DoClaim().ok());
  EXPECT_TRUE(first.Check().ok());
  EXPECT_TRUE(first.SetAddress("10.0.0.5:4321").ok());
  ASSERT_TRUE(second.DoClaim().ok());
  EXPECT_EQ(second.tenure(), (Tenure{2, 5}));
  EXPECT_TRUE(second.Check().ok());
  EXPECT_FALSE(first.Check().ok());
  EXPECT_EQ(first.other().holder, 5u);
}

TEST_F(OwnershipTest, WhereNothingCanBeWrittenItServesWithoutSnapshotsUntilItCan) {
  auto before = std::make_unique<OneServer>(WithHolder(77));
  EXPECT_TRUE(before->Write(1).ok());
  auto files = Contents();
  bool is_full = true;
  // The disk as it is, but full.
  HeldFiles& disk = HeldFiles::Get();
  disk.SetBefore([&is_full](FileOperation operation, const std::string&, const std::string&) {
    return !is_full || operation == FileOperation::kList || operation == FileOperation::kOpen;
  });
  OneServer server(WithHolder(5));
  EXPECT_THAT(log_, HasSubstr("ps:3: it can't say in \"held://job/ps_3\" that it has this task"));
  EXPECT_EQ(server.snapshots().owner().epoch, 0u);
  EXPECT_EQ(server.Get(), 1);
  server.snapshots().SetAddress("10.0.0.5:4321");
  EXPECT_FALSE(server.Write(2).ok());
  EXPECT_EQ(Contents(), files);
  is_full = false;
  EXPECT_TRUE(server.Write(3).ok());
  EXPECT_EQ(server.snapshots().owner().epoch, 2u);
  EXPECT_THAT(Contents().at(OwnerPath({2, 5})), HasSubstr("10.0.0.5:4321"));
  EXPECT_FALSE(before->Write(4).ok());
  EXPECT_EQ(OneServer().Get(), 3);
}

// ---- frozen, and woken ----

// What a server does to files, up to the operation at which it is frozen. Meanwhile another takes over.
class FrozenTest : public OwnershipTest {
 protected:
  // Runs `work`; at its file operation number `at`, `meanwhile` runs. False: it has fewer. `seen`, if any, hears of the
  // others until then.
  static bool FreezeAt(int at, const std::function<void()>& work, const std::function<void()>& meanwhile,
                       const std::function<void(FileOperation)>& seen = nullptr) {
    bool is_frozen = false;
    int number = 0;
    HeldFiles::Get().SetBefore([&](FileOperation operation, const std::string&, const std::string&) {
      if (is_frozen) return true;
      if (number++ == at) {
        is_frozen = true;
        meanwhile();
      } else if (seen != nullptr) {
        seen(operation);
      }
      return true;
    });
    work();
    HeldFiles::Get().SetBefore(nullptr);
    return is_frozen;
  }
  // All files of this owner are as they were.
  static void ExpectHas(const std::map<std::string, std::string>& before, const Tenure& tenure) {
    const auto now = Contents();
    for (const auto& [path, content] : before) {
      FolderFile file;
      if (!SnapshotFolder::Parse(path.substr(path.rfind('/') + 1), &file) || file.tenure != tenure) continue;
      ASSERT_EQ(now.count(path), 1u) << path;
      EXPECT_EQ(now.at(path), content) << path;
    }
  }
};

TEST_F(FrozenTest, OneThatWakesAtAnyPointOfARoundHarmsNothingOfItsSuccessor) {
  bool has_more = true;
  int at = 0;
  for (; has_more; ++at) {
    SCOPED_TRACE(at);
    HeldFiles::Get().Reset(nullptr);
    OneServer first(WithHolder(77));
    for (float value : {1, 2, 3}) EXPECT_TRUE(first.Write(value).ok());
    std::unique_ptr<OneServer> second;
    std::map<std::string, std::string> files;
    float found = 0;
    has_more = FreezeAt(
        at, [&] { (void)first.Write(4).ok(); },
        [&] {
          second = std::make_unique<OneServer>(WithHolder(at % 2 == 0 ? 5 : 99));
          found = second->Get();
          for (int i = 0; i < 1 + at % 4; ++i) EXPECT_TRUE(second->Write(10).ok());
          files = Contents();
        });
    if (!has_more) break;
    EXPECT_TRUE(found == 3 || found == 4) << found;
    ExpectHas(files, second->tenure());
    const auto woken = Contents();
    EXPECT_FALSE(first.Write(5).ok());
    EXPECT_EQ(Contents(), woken);
    EXPECT_EQ(OneServer().Get(), 10);  // not what the first has completed late
    OneServer third;
    EXPECT_TRUE(third.Write(20).ok());
    EXPECT_FALSE(second->Write(11).ok());
    EXPECT_EQ(OneServer().Get(), 20);
  }
  EXPECT_GT(at, 12);  // two checks, the data file, the manifest, and what is pruned
}

TEST_F(FrozenTest, OneThatWakesWhileItRemovesItsSnapshotsRemovesNothingOfItsSuccessor) {
  bool has_more = true;
  int at = 0;
  for (; has_more; ++at) {
    SCOPED_TRACE(at);
    HeldFiles::Get().Reset(nullptr);
    OneServer first(WithHolder(77));
    for (float value : {1, 2, 3}) EXPECT_TRUE(first.Write(value).ok());
    std::unique_ptr<OneServer> second;
    std::map<std::string, std::string> files;
    Mutex mutex;
    CondVar changed;
    bool is_fenced = false;
    size_t left = HeldFiles::Get().files().size() - 1;  // all but its owner file
    has_more = FreezeAt(
        at,
        [&] {
          first.snapshots().GiveUp("a queue");
          Snapshots::Hooks hooks;
          hooks.yield = [&](const Owner&, bool) {
            MutexLock lock(mutex);
            is_fenced = true;
            changed.NotifyAll();
          };
          first.snapshots().Start(std::move(hooks));
          const int64_t deadline_ns = Clock::Real()->NowNs() + 10 * kSecondNs;
          {
            MutexLock lock(mutex);
            while (!is_fenced && left > 0 && changed.WaitUntil(mutex, deadline_ns)) {
            }
            EXPECT_TRUE(is_fenced || left == 0);
          }
          first.snapshots().Stop();
        },
        [&] {
          second = std::make_unique<OneServer>(WithHolder(5));
          EXPECT_TRUE(second->Write(10).ok());
          files = Contents();
        },
        [&](FileOperation operation) {
          MutexLock lock(mutex);
          if (operation == FileOperation::kDelete) --left;
          changed.NotifyAll();
        });
    if (!has_more) break;
    ExpectHas(files, second->tenure());
    EXPECT_TRUE(second->Write(11).ok());
    EXPECT_EQ(OneServer().Get(), 11);
  }
  EXPECT_GT(at, 10);  // a look and a removal for each of its files
}

TEST_F(FrozenTest, AServerThatWakesWhileItClaimsOrRestoresIsNotASecondOwner) {
  bool has_more = true;
  int at = 0;
  for (; has_more; ++at) {
    SCOPED_TRACE(at);
    HeldFiles::Get().Reset(nullptr);
    {
      OneServer before(WithHolder(50));
      for (float value : {1, 2, 3}) EXPECT_TRUE(before.Write(value).ok());
    }
    std::unique_ptr<OneServer> first, second;
    std::map<std::string, std::string> files;
    has_more = FreezeAt(
        at,
        [&] {
          Claim claim = WithHolder(77);
          claim.wait = [] {};
          first = std::make_unique<OneServer>(claim);
        },
        [&] {
          second = std::make_unique<OneServer>(WithHolder(at % 2 == 0 ? 5 : 99));
          EXPECT_EQ(second->Get(), 3);
          for (int i = 0; i < 1 + at % 4; ++i) EXPECT_TRUE(second->Write(10).ok());
          files = Contents();
        });
    if (!has_more) break;
    // Exactly one of the two has the task.
    if (first->snapshots().is_elsewhere()) ExpectHas(files, second->tenure());
    const bool has_first = !first->snapshots().is_elsewhere() && first->Write(20).ok();
    const bool has_second = second->Write(30).ok();
    EXPECT_NE(has_first, has_second);
    EXPECT_EQ(OneServer().Get(), has_first ? 20 : 30);
  }
  EXPECT_GT(at, 6);
}

// ---- any of it ----

// Servers of one task, each on a thread, of which one is at work at a time. At each file operation, another may go on,
// or the server dies.
class Servers {
 public:
  Servers(unsigned seed, int count) : seed_(seed), random_(seed) {
    constexpr unsigned kOneIn[] = {1, 3, 10, 40};
    switch_one_in_ = kOneIn[random_() % 4];
    die_one_in_ = random_() % 3 == 0 ? 40 : random_() % 2 == 0 ? 300 : 1000000;
    HeldFiles::Get().Reset([this](FileOperation operation, const std::string& path, const std::string& to) {
      return Before(operation, path, to);
    });
    for (int i = 0; i < count; ++i) {
      players_.push_back(std::make_unique<Player>());
      players_.back()->index = i;
      players_.back()->holder = 1 + random_() % 1000 * 16 + static_cast<unsigned>(i);
    }
  }
  ~Servers() { HeldFiles::Get().Reset(nullptr); }

  void Play() {
    turns_.Play(static_cast<int>(players_.size()), [this](int i) { Run(players_[static_cast<size_t>(i)].get()); });
    // In any case, one more takes over, and has the newest of the highest epoch.
    HeldFiles::Get().SetBefore(nullptr);
    const float best = Best();
    OneServer last;
    EXPECT_FALSE(last.snapshots().is_elsewhere());
    EXPECT_EQ(last.Get(), best);
    for (const auto& one : owners_) EXPECT_LT(one.first, last.tenure().epoch);
  }
  int owners() const { return static_cast<int>(owners_.size()); }
  int fenced() const { return fenced_; }
  int elsewhere() const { return elsewhere_; }
  int deaths() const { return deaths_; }

 private:
  struct Player {
    uint64_t holder = 0, epoch = 0;
    bool is_dead = false, is_done = false;
    float value = 0;
    float best = 0, expected = 0;  // when it listed the folder last; when it began to read snapshots
    bool has_read = false, has_seen_successor = false;
    FileOperation last = FileOperation::kList;
    int late_manifests = 0, late_removals = 0;
    int index = 0;
  };

  void Run(Player* player) {
    SCOPED_TRACE("seed " + std::to_string(seed_));
    current_ = player;
    Serve(player);
    current_ = nullptr;
    player->is_done = true;
  }

  void Serve(Player* player) {
    Claim claim;
    claim.holder = player->holder;
    claim.wait = [this, player] { turns_.Yield(player->index); };
    if (random_() % 2 == 0) claim.is_served = [this](const Owner& owner) { return IsServed(owner); };
    OneServer server(claim);
    if (player->is_dead) return;
    if (server.snapshots().is_elsewhere()) {
      ++elsewhere_;
      return;
    }
    const uint64_t epoch = server.tenure().epoch;
    ASSERT_GT(epoch, 0u);
    EXPECT_TRUE(owners_.emplace(epoch, player->holder).second) << "two owners of epoch " << epoch;
    if (!HasSuccessor(*player)) {
      EXPECT_EQ(server.Get(), player->expected);
    }
    if (random_() % 2 == 0) server.snapshots().SetAddress(std::to_string(player->holder));
    for (unsigned rounds = random_() % 6; rounds > 0; --rounds) {
      player->value = ++last_value_;
      const bool had_successor = HasSuccessor(*player);
      const TfStatus written = server.Write(player->value);
      if (player->is_dead) return;
      EXPECT_FALSE(written.ok() && had_successor);
      if (!written.ok()) {
        EXPECT_TRUE(HasSuccessor(*player)) << written;
        ++fenced_;
        return;
      }
    }
  }

  // Most of those that live say so in time.
  bool IsServed(const Owner& owner) {
    for (const auto& player : players_) {
      if (player->holder == owner.holder) return !player->is_dead && !player->is_done && random_() % 8 != 0;
    }
    return false;
  }

  // ---- what they do ----

  bool Before(FileOperation operation, const std::string& path, const std::string& to) {
    Player* player = current_;
    if (player == nullptr || player->is_dead) return player == nullptr;
    if (random_() % switch_one_in_ == 0) turns_.Yield(player->index);
    if (random_() % die_one_in_ == 0) {
      ++deaths_;
      player->is_dead = true;
      return false;
    }
    FolderFile file;
    const std::string& changed = operation == FileOperation::kRename ? to : path;
    const bool is_file = SnapshotFolder::Parse(changed.substr(changed.rfind('/') + 1), &file);
    const FileOperation last = player->last;
    if (operation != FileOperation::kOpen) player->last = operation;
    // It looks right before it removes anything, and before it writes a manifest; and then does as it has seen.
    const bool is_manifest = changed.find(".manifest") != std::string::npos;
    const bool must_look = operation == FileOperation::kDelete || (operation == FileOperation::kCreate && is_manifest);
    EXPECT_TRUE(!must_look || last == FileOperation::kList) << changed;
    const bool is_of_claim = changed.find("/owner.") != std::string::npos && operation != FileOperation::kDelete;
    const bool is_change = operation != FileOperation::kList && operation != FileOperation::kOpen;
    EXPECT_FALSE(is_change && !is_of_claim && operation != FileOperation::kMakeFolder && player->has_seen_successor)
        << changed;
    switch (operation) {
      case FileOperation::kList:
        player->best = Best();
        player->has_seen_successor = HasSuccessor(*player);
        break;
      case FileOperation::kOpen:
        if (file.kind == FolderFileKind::kManifest && !std::exchange(player->has_read, true))
          player->expected = player->best;
        break;
      case FileOperation::kDelete:
        EXPECT_TRUE(is_file);
        EXPECT_TRUE(file.tenure.holder == player->holder || file.tenure.epoch < player->epoch) << path;
        player->late_removals += HasSuccessor(*player);
        EXPECT_LE(player->late_removals, 1) << path;
        break;
      case FileOperation::kMakeFolder: break;
      default:
        EXPECT_TRUE(is_file);
        EXPECT_EQ(file.tenure.holder, player->holder) << changed;
        if (operation == FileOperation::kRename) Renamed(player, file);
    }
    return true;
  }

  void Renamed(Player* player, const FolderFile& file) {
    if (file.kind == FolderFileKind::kOwner) player->epoch = std::max(player->epoch, file.tenure.epoch);
    if (file.kind != FolderFileKind::kManifest) return;
    EXPECT_EQ(file.tenure.epoch, player->epoch);
    EXPECT_EQ(values_.count(file.name), 0u) << file.name;
    EXPECT_EQ(writers_.emplace(file.tenure.epoch, player->holder).first->second, player->holder)
        << "two wrote snapshots of epoch " << file.tenure.epoch;
    player->late_manifests += HasSuccessor(*player);
    EXPECT_LE(player->late_manifests, 1) << file.name;
    values_[file.name] = player->value;
  }

  static bool HasSuccessor(const Player& player) {
    const auto& files = HeldFiles::Get().files();
    return std::any_of(files.begin(), files.end(), [&player](const auto& one) {
      FolderFile file;
      const bool is_ours = SnapshotFolder::Parse(one.first.substr(one.first.rfind('/') + 1), &file);
      return is_ours && file.kind == FolderFileKind::kOwner && file.tenure.epoch > player.epoch;
    });
  }

  // The value of the newest complete snapshot of the highest epoch; 0: there is none.
  float Best() const {
    const auto& files = HeldFiles::Get().files();
    FolderFile best;
    for (const auto& [path, content] : files) {
      FolderFile file;
      const size_t name_at = path.rfind('/') + 1;
      if (!SnapshotFolder::Parse(path.substr(name_at), &file) || file.kind != FolderFileKind::kManifest) continue;
      Manifest manifest;
      EXPECT_TRUE(DecodeManifest(*content, &manifest).ok());
      const bool is_complete = std::all_of(manifest.files.begin(), manifest.files.end(),
                                           [&, folder = path.substr(0, name_at)](const StateFile& state) {
                                             return files.count(folder + state.name) == 1;
                                           });
      const bool is_better = best.tenure < file.tenure ||
                             (best.tenure == file.tenure && best.generation < file.generation) || best.name.empty();
      if (is_complete && is_better) best = file;
    }
    return best.name.empty() ? 0 : values_.at(best.name);
  }

  static thread_local Player* current_;

  const unsigned seed_;
  std::mt19937 random_;
  Turns turns_{&random_};
  unsigned switch_one_in_ = 1, die_one_in_ = 1;
  std::vector<std::unique_ptr<Player>> players_;
  float last_value_ = 0;
  std::map<std::string, float> values_;   // of snapshots, by the manifest's name
  std::map<uint64_t, uint64_t> owners_;   // epoch -> holder
  std::map<uint64_t, uint64_t> writers_;  // likewise, of snapshots
  int fenced_ = 0, elsewhere_ = 0, deaths_ = 0;
};

thread_local Servers::Player* Servers::current_ = nullptr;

TEST_F(OwnershipTest, OfAnyNumberThatClaimFreezeWakeAndDieOneHasTheTask) {
  constexpr int kSeeds = 10000;
  const auto first = static_cast<unsigned>(Clock::Real()->NowNs());
  int owners = 0, fenced = 0, elsewhere = 0, deaths = 0;
  for (unsigned seed = first; seed != first + kSeeds && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Servers servers(seed, 2 + static_cast<int>(seed % 4));
    servers.Play();
    owners += servers.owners();
    fenced += servers.fenced();
    elsewhere += servers.elsewhere();
    deaths += servers.deaths();
    log_.clear();
  }
  EXPECT_GT(owners, kSeeds);
  EXPECT_GT(fenced, kSeeds / 10);
  EXPECT_GT(elsewhere, kSeeds / 10);
  EXPECT_GT(deaths, kSeeds / 10);
  RecordProperty("owners", owners);
  RecordProperty("fenced", fenced);
  RecordProperty("elsewhere", elsewhere);
  RecordProperty("deaths", deaths);
}

}  // namespace
}  // namespace fusewire::tf
