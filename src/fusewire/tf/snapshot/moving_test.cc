// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A task moves from one server to another, without a wire between them.
// Tests: snapshot/departure.cc, snapshot/arrival.cc
#include <cstdlib>
#include <filesystem>
#include <functional>
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
#include "fusewire/tf/snapshot/folder_test.h"
#include "fusewire/tf/snapshot/snapshots.h"
#include "fusewire/tf/state/devices.h"

namespace fusewire::tf {
namespace {

using tensorflow::Tensor;
using tensorflow::TensorShape;
using testing::HasSubstr;

constexpr int64_t kRows = 20000, kColumns = 16;

Holding VariableNamed(const std::string& name) {
  Holding holding;
  holding.device = "CPU:0";
  holding.name = name;
  return holding;
}

// What a server is for the snapshots: its hooks, and what has become of it.
class MovingServer {
 public:
  MovingServer(const std::string& folder, uint64_t holder,
               std::function<std::unique_ptr<Predecessor>()> from = nullptr) {
    tensorflow::ServerDef def;
    def.set_job_name("ps");
    def.set_task_index(3);
    Claim claim;
    claim.holder = holder;
    claim.is_served = [](const Owner&) { return true; };
    claim.pause_ns_max = 10 * kSecondNs;
    if (from != nullptr) claim.predecessor = [from](const Owner&) { return from(); };
    opened_ = Snapshots::Open({folder, 3600 * kSecondNs, "default"}, def, &snapshots_, std::move(claim));
  }
  ~MovingServer() {
    if (snapshots_ != nullptr) snapshots_->Stop();
  }

  const TfStatus& opened() const { return opened_; }
  Snapshots& snapshots() { return *snapshots_; }
  void Serve() {
    snapshots_->SetAddress("host:1");
    Snapshots::Hooks hooks;
    hooks.collect = [this](std::vector<KeptClient>* clients) {
      *clients = answers_;
      return TfStatus();
    };
    hooks.yield = [this](const Owner& successor, bool has_moved) {
      MutexLock lock(mutex_);
      seen_.successor = has_moved ? successor.holder : 0;
      changed_.NotifyAll();
    };
    hooks.parts = [] { return std::vector<std::string>{"one part", "another"}; };
    hooks.close = [this] {
      MutexLock lock(mutex_);
      if (seen_.is_busy) return TfStatus(absl::DeadlineExceededError("a step is running"));
      seen_.is_closed = true;
      return TfStatus();
    };
    hooks.values = [](std::string* values) {
      *values = "values of steps";
      return TfStatus();
    };
    hooks.open = [this](uint64_t epoch) {
      MutexLock lock(mutex_);
      seen_.is_closed = false;
      seen_.opened_epoch = epoch;
      changed_.NotifyAll();
    };
    snapshots_->Start(std::move(hooks));
  }
  void Make(const std::string& name, Tensor tensor) {
    EXPECT_TRUE(RestoreHolding(snapshots_->devices()->HostCPU(), VariableNamed(name), {std::move(tensor)}).ok());
    snapshots_->inventory().Add(VariableNamed(name))->Whole();
  }
  void SetRow(int64_t row, float value) {
    const TfRef<tensorflow::Var> rows = Find("rows");
    ASSERT_TRUE(rows != nullptr);
    rows->tensor()->matrix<float>().chip<0>(row).setConstant(value);
    Tensor indices(tensorflow::DT_INT64, TensorShape({1}));
    indices.flat<int64_t>()(0) = row;
    snapshots_->inventory().MarksOf(VariableNamed("rows"))->Rows(indices);
  }
  std::string Bytes(const std::string& name) {
    const TfRef<tensorflow::Var> variable = Find(name);
    return variable == nullptr ? "none" : std::string(variable->tensor()->tensor_data());
  }
  bool AwaitYield(uint64_t holder) {
    return Await([holder](const Seen& seen) { return seen.successor == holder; });
  }
  bool AwaitOpen() {
    return Await([](const Seen& seen) { return seen.opened_epoch != 0 && !seen.is_closed; });
  }
  bool is_closed() {
    MutexLock lock(mutex_);
    return seen_.is_closed;
  }
  uint64_t opened_epoch() {
    MutexLock lock(mutex_);
    return seen_.opened_epoch;
  }
  void SetBusy(bool is_busy) {
    MutexLock lock(mutex_);
    seen_.is_busy = is_busy;
  }
  std::vector<KeptClient> answers_ = {{5, 3, {{4, true, "head", {"body"}}}}};

 private:
  // Null: it has none.
  TfRef<tensorflow::Var> Find(const std::string& name) {
    tensorflow::Var* found = nullptr;
    tensorflow::ResourceMgr* resources = snapshots_->devices()->HostCPU()->resource_manager();
    if (!resources->Lookup<tensorflow::Var>("ps", name, &found).ok()) return nullptr;
    return TfRef<tensorflow::Var>(found);
  }
  struct Seen {
    bool is_closed = false, is_busy = false;
    uint64_t successor = 0, opened_epoch = 0;
  };
  bool Await(const std::function<bool(const Seen&)>& is_so) {
    const int64_t deadline_ns = AddNs(Clock::Real()->NowNs(), 20 * kSecondNs);
    MutexLock lock(mutex_);
    while (!is_so(seen_) && changed_.WaitUntil(mutex_, deadline_ns)) {
    }
    return is_so(seen_);
  }

  TfStatus opened_;
  std::unique_ptr<Snapshots> snapshots_;
  Mutex mutex_;
  CondVar changed_;
  Seen seen_ FUSEWIRE_GUARDED_BY(mutex_);
};

// Asks the old server itself. Before each question, a test may do what it likes; false: the question is lost.
class HerePredecessor final : public Predecessor {
 public:
  using Before = std::function<bool(int number, MoveWant want)>;
  HerePredecessor(Snapshots* from, uint64_t taker, Before before)
      : from_(from), taker_(taker), before_(std::move(before)) {}

  TfStatus Ask(MoveWant want, HandedOver* answer, std::vector<std::string>* pieces) override {
    if (before_ != nullptr && !before_(asked_++, want)) return absl::UnavailableError("the old server is gone");
    Mutex mutex;
    CondVar come;
    bool has_come = false;
    TfStatus end;
    from_->departures().OnHandOver({taker_, want},
                                   [&](const TfStatus& status, const HandedOver& said, std::vector<std::string> got) {
                                     MutexLock lock(mutex);
                                     end = status;
                                     *answer = said;
                                     *pieces = std::move(got);
                                     has_come = true;
                                     come.NotifyAll();
                                   });
    MutexLock lock(mutex);
    const int64_t deadline_ns = AddNs(Clock::Real()->NowNs(), 30 * kSecondNs);
    while (!has_come && come.WaitUntil(mutex, deadline_ns)) {
    }
    EXPECT_TRUE(has_come);
    return end;
  }

 private:
  Snapshots* const from_;
  const uint64_t taker_;
  const Before before_;
  int asked_ = 0;
};

class MovingTest : public testing::Test {
 protected:
  MovingTest() {
    old_ = std::make_unique<MovingServer>(folder_.path(), 77);
    EXPECT_TRUE(old_->opened().ok()) << old_->opened();
    Tensor rows(tensorflow::DT_FLOAT, TensorShape({kRows, kColumns}));
    for (int64_t i = 0; i < kRows * kColumns; ++i) rows.flat<float>()(i) = static_cast<float>(i);
    old_->Make("rows", std::move(rows));
    old_->Make("dense", Tensor(1.0f));
    old_->Serve();
  }
  // The new server, up to the moment before the old one closes.
  void Follow(HerePredecessor::Before before = nullptr, uint64_t holder = 5) {
    new_ = std::make_unique<MovingServer>(folder_.path(), holder, [this, before, holder] {
      return std::make_unique<HerePredecessor>(&old_->snapshots(), holder, before);
    });
  }
  void ExpectSame() {
    for (const char* name : {"rows", "dense"}) EXPECT_EQ(new_->Bytes(name), old_before_[name]) << name;
  }
  void KeepOld() {
    for (const char* name : {"rows", "dense"}) old_before_[name] = old_->Bytes(name);
  }

  const TemporaryFolder folder_;  // outlives both
  std::string values_;
  std::unique_ptr<MovingServer> old_, new_;
  std::map<std::string, std::string> old_before_;
};

TEST_F(MovingTest, ItHasAllThatTheOldServerHadWhenItClosed) {
  int rounds = 0;
  Follow([&](int, MoveWant want) {
    // While rounds are copied, steps go on: rows, a variable as a whole, a new one.
    if (want == MoveWant::kRound) {
      ++rounds;
      for (int64_t row = 0; row < 100; ++row) old_->SetRow(37 * row % kRows, static_cast<float>(rounds));
      old_->Make("dense", Tensor(static_cast<float>(rounds)));
    }
    if (want == MoveWant::kClose) {  // after the last round that it has seen
      old_->SetRow(7, -1);
      old_->Make("dense", Tensor(99.0f));
      KeepOld();
    }
    return true;
  });
  ASSERT_TRUE(new_->opened().ok()) << new_->opened();
  ASSERT_TRUE(new_->snapshots().arrival() != nullptr);
  EXPECT_FALSE(old_->is_closed());
  EXPECT_EQ(new_->snapshots().arrival()->parts(), (std::vector<std::string>{"one part", "another"}));
  EXPECT_EQ(StateOf(*new_->snapshots().devices()), StateOf(*old_->snapshots().devices()));
  EXPECT_GE(rounds, 2);
  const TfStatus taken = new_->snapshots().TakeOver("host:2", &values_);
  ASSERT_TRUE(taken.ok()) << taken;
  EXPECT_TRUE(old_->is_closed());
  ExpectSame();
  EXPECT_EQ(values_, "values of steps");
  ASSERT_EQ(new_->snapshots().clients().size(), 1u);
  EXPECT_EQ(new_->snapshots().clients()[0].runs[0].number, 4u);
  EXPECT_EQ(new_->snapshots().owner().epoch, 2u);
  EXPECT_THAT(new_->snapshots().arrival()->SayDone(), HasSubstr("MiB came over, and steps stood still for"));
  EXPECT_TRUE(old_->AwaitYield(5));
  old_->snapshots().Stop();
  EXPECT_TRUE(old_->Bytes("rows") == "none");  // its memory is free
  EXPECT_FALSE(old_->snapshots().Write().ok());
  EXPECT_TRUE(new_->snapshots().Write().ok());
}

TEST_F(MovingTest, WhenTheNewServerDoesNotComeTheOldOneGoesOnWithAHigherEpoch) {
  Follow([](int, MoveWant want) { return want != MoveWant::kDone; });
  ASSERT_TRUE(new_->opened().ok()) << new_->opened();
  HandedOver answer;
  std::vector<std::string> pieces;
  HerePredecessor asks(&old_->snapshots(), 5, nullptr);
  ASSERT_TRUE(asks.Ask(MoveWant::kClose, &answer, &pieces).ok());
  EXPECT_EQ(answer.said, MoveSaid::kClosed);
  EXPECT_TRUE(old_->is_closed());
  ASSERT_TRUE(old_->AwaitOpen());  // it has asked, and nobody serves it
  EXPECT_EQ(old_->opened_epoch(), 2u);
  KeepOld();
  EXPECT_NE(old_before_["rows"], "none");
  // The one that comes too late has lost.
  EXPECT_FALSE(new_->snapshots().TakeOver("host:2", &values_).ok());
  // Another one may come.
  Follow(nullptr, 6);
  ASSERT_TRUE(new_->opened().ok()) << new_->opened();
  ASSERT_TRUE(new_->snapshots().TakeOver("host:2", &values_).ok());
  ExpectSame();
  EXPECT_EQ(new_->snapshots().owner().epoch, 3u);
}

TEST_F(MovingTest, WhereverTheNewServerEndsBeforeItHasTheTaskTheOldOneGoesOn) {
  for (int last = 0; last < 3; ++last) {
    SCOPED_TRACE(last);
    Follow([last](int number, MoveWant want) { return number < last || want == MoveWant::kStop; });
    EXPECT_FALSE(new_->opened().ok());
    EXPECT_THAT(std::string(new_->opened().message()), HasSubstr("ps:3 can't move here from host:1"));
    EXPECT_FALSE(old_->is_closed());
  }
  old_->snapshots().Stop();
  EXPECT_TRUE(old_->snapshots().Write().ok());
}

TEST_F(MovingTest, ABusyTaskStays) {
  Follow();
  ASSERT_TRUE(new_->opened().ok()) << new_->opened();
  old_->SetBusy(true);
  const TfStatus taken = new_->snapshots().TakeOver("host:2", &values_);
  EXPECT_THAT(std::string(taken.message()), HasSubstr("a step is running"));
  EXPECT_FALSE(old_->is_closed());
  old_->snapshots().Stop();
  EXPECT_TRUE(old_->snapshots().Write().ok());
}

TEST_F(MovingTest, OneAtATimeTakesIt) {
  Follow();
  ASSERT_TRUE(new_->opened().ok()) << new_->opened();
  MovingServer second(folder_.path(), 6,
                      [this] { return std::make_unique<HerePredecessor>(&old_->snapshots(), 6, nullptr); });
  EXPECT_THAT(std::string(second.opened().message()), HasSubstr("another process is taking it over at this moment"));
  KeepOld();
  ASSERT_TRUE(new_->snapshots().TakeOver("host:2", &values_).ok());
  ExpectSame();
}

TEST_F(MovingTest, WhatCantBeCopiedCantMove) {
  old_->snapshots().GiveUp("the FIFOQueueV2 sync_token_q");
  Follow();
  EXPECT_THAT(std::string(new_->opened().message()),
              HasSubstr("it holds the FIFOQueueV2 sync_token_q, which can't be copied"));
  EXPECT_FALSE(old_->is_closed());
}

TEST_F(MovingTest, OneThatWritesTooFastForThePauseStays) {
  HerePredecessor::Before before = [this](int, MoveWant want) {
    if (want == MoveWant::kRound) old_->Make("rows", Tensor(tensorflow::DT_FLOAT, TensorShape({kRows, kColumns})));
    return true;
  };
  Arrival arrival(std::make_unique<HerePredecessor>(&old_->snapshots(), 5, before), 1);
  ASSERT_TRUE(arrival.Begin("ps:3", "default").ok());
  EXPECT_THAT(std::string(arrival.Follow().message()), HasSubstr("so they would stand still for"));
  EXPECT_FALSE(old_->is_closed());
}

TEST_F(MovingTest, OneOfAnotherClusterIsRefused) {
  Arrival arrival(std::make_unique<HerePredecessor>(&old_->snapshots(), 5, nullptr), kSecondNs);
  EXPECT_THAT(std::string(arrival.Begin("ps:3", "another").message()), HasSubstr("of the cluster \"default\""));
}

TEST_F(MovingTest, AnyMixOfWritesMoves) {
  const auto seed = static_cast<unsigned>(Clock::Real()->NowNs());
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int move = 0; move < 20; ++move) {
    const auto write = [&] {
      for (unsigned i = random() % 50; i > 0; --i) old_->SetRow(random() % kRows, static_cast<float>(random()));
      if (random() % 3 == 0) old_->Make("dense", Tensor(static_cast<float>(random())));
    };
    Follow(
        [&](int, MoveWant want) {
          if (want == MoveWant::kRound || want == MoveWant::kNext || want == MoveWant::kClose) write();
          if (want == MoveWant::kClose) KeepOld();
          return true;
        },
        100 + static_cast<uint64_t>(move));
    ASSERT_TRUE(new_->opened().ok()) << new_->opened();
    write();
    ASSERT_TRUE(new_->snapshots().TakeOver("host:2", &values_).ok());
    ExpectSame();
    new_->snapshots().arrival()->SayDone();
    new_->Serve();
    EXPECT_TRUE(old_->AwaitYield(100 + static_cast<uint64_t>(move)));
    old_ = std::move(new_);
  }
}

}  // namespace
}  // namespace fusewire::tf
