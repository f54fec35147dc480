// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A task moves, in a simulation: its owner closes for another server, either dies or stands still at any operation on
// the folder or between two messages, and waits end whenever the seed wants it.
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include "fusewire/base/clock.h"
#include "fusewire/tf/snapshot/files_test.h"
#include "fusewire/tf/snapshot/ownership.h"
#include "fusewire/tf/snapshot/turns_test.h"

namespace fusewire::tf {
namespace {

// A fault that the test must detect.
enum class Canary { kNone, kOpensWithoutTheFolder, kServesWithoutTheFolder };

class Moves {
 public:
  Moves(unsigned seed, Canary canary) : random_(seed), canary_(canary), turns_(&random_) {
    constexpr unsigned kOneIn[] = {1, 2, 5, 20};
    switch_one_in_ = kOneIn[random_() % 4];
    die_one_in_ = random_() % 2 == 0 ? 30 : 100000;
    HeldFiles::Get().Reset(
        [this](FileOperation operation, const std::string&, const std::string&) { return Before(operation); });
    for (int i = 0, count = 2 + static_cast<int>(random_() % 3); i < count; ++i) {
      servers_.push_back(std::make_unique<One>());
      servers_.back()->index = i;
      servers_.back()->holder = 1 + random_() % 1000 * 16 + static_cast<unsigned>(i);
    }
  }
  ~Moves() { HeldFiles::Get().Reset(nullptr); }

  // Empty: nothing was wrong.
  std::string Play() {
    turns_.Play(static_cast<int>(servers_.size()), [this](int i) { Run(servers_[static_cast<size_t>(i)].get()); });
    return wrong_;
  }
  int moved() const { return moved_; }
  int kept() const { return kept_; }
  int deaths() const { return deaths_; }

 private:
  struct One {
    int index = 0;
    uint64_t holder = 0;
    bool is_dead = false, is_serving = false;
    bool is_served = false;          // it says so when it is asked
    int updates = 0;                 // that it has
    std::unique_ptr<Ownership> own;  // null: it has not begun
    // Of an owner that has closed: for whom, and what it gave away.
    One* closed_for = nullptr;
    Tenure closed_tenure;
    bool has_come = false;
  };

  void Run(One* one) {
    current = one;
    Claim claim;
    claim.holder = one->holder;
    claim.wait = [this, one] { turns_.Yield(one->index); };
    claim.is_served = [this](const Owner& owner) { return IsServed(owner); };
    one->own = std::make_unique<Ownership>(folder_, "ps:3", "default", std::move(claim));
    (void)one->own->SetAddress(std::to_string(one->holder)).ok();
    Begin(one);
    for (unsigned i = random_() % 20; i > 0 && !one->is_dead && one->is_serving; --i) {
      turns_.Yield(one->index);
      Push(one);
      if (random_() % 2 == 0) HandOver(one);
    }
    one->is_serving = one->is_served = false;
    current = nullptr;
  }

  // The first one claims the task; the others take it by a move. (Of two that claim it at once, one may serve until its
  // next look: ownership_test.cc.)
  void Begin(One* one) {
    if (one->index == 0) {
      (void)one->own->DoClaim().ok();
      if (!one->is_dead) Serve(one);
      return;
    }
    One* from = nullptr;
    for (unsigned turns = random_() % 30; turns > 0 && from == nullptr; --turns) {
      turns_.Yield(one->index);
      if (wanted_ == nullptr) wanted_ = one;
      for (const auto& other : servers_) {
        if (other->closed_for == one) from = other.get();
      }
    }
    if (wanted_ == one) wanted_ = nullptr;
    if (from == nullptr) return;
    const Tenure tenure = from->closed_tenure;
    one->updates = from->updates;  // the last round has come
    if (random_() % 4 == 0) turns_.Yield(one->index);
    const TfStatus succeeded = canary_ == Canary::kServesWithoutTheFolder ? TfStatus() : one->own->Succeed(tenure);
    if (one->is_dead || !succeeded.ok()) return;
    from->has_come = true;
    ++moved_;
    Serve(one);
  }

  void Note(const One& one, const char* what) {
    what_ += std::to_string(one.index) + " " + what + " " + std::to_string(one.own->tenure().epoch) + "/" +
             std::to_string(one.updates) + "; ";
  }

  void Serve(One* one) {
    Note(*one, "serves");
    one->is_serving = one->is_served = true;
    Check(*one);
  }

  // A worker pushes an update to the one that it takes for the server.
  void Push(One* one) {
    if (one->closed_for != nullptr || !one->is_serving) return;
    Check(*one);
    ++one->updates;
    ++updates_;
    if (one->updates != updates_ && wrong_.empty()) wrong_ = "updates are lost: " + what_;
    if (random_() % 3 == 0) (void)one->own->Check().ok();
    if (!one->is_dead && one->own->state() != Ownership::State::kOwner)
      wrong_ = "it serves, and has lost the task: " + what_;
  }

  void HandOver(One* one) {
    if (wanted_ == nullptr || wanted_ == one || wanted_->is_dead) return;
    one->closed_for = std::exchange(wanted_, nullptr);
    one->closed_tenure = one->own->tenure();
    Note(*one, "closes");
    for (unsigned turns = random_() % 12; turns > 0 && !one->has_come; --turns) turns_.Yield(one->index);
    if (one->is_dead) return;
    const bool has_moved = one->has_come && !one->own->Check().ok();
    if (!has_moved && canary_ != Canary::kOpensWithoutTheFolder) (void)one->own->Reclaim().ok();
    if (one->is_dead) return;
    const bool is_owner =
        canary_ == Canary::kOpensWithoutTheFolder ? !has_moved : one->own->state() == Ownership::State::kOwner;
    if (!is_owner) {
      one->is_serving = one->is_served = false;
      return;
    }
    one->has_come = false;
    one->closed_for = nullptr;
    ++kept_;
    Note(*one, "opens");
    Check(*one);
  }

  // Nobody else serves.
  void Check(const One& one) {
    for (const auto& other : servers_) {
      if (other.get() == &one || !other->is_serving || other->is_dead || other->closed_for != nullptr) continue;
      const Tenure mine = one.own->tenure(), its = other->own->tenure();
      wrong_ =
          "two serve it: epochs " + std::to_string(mine.epoch) + " and " + std::to_string(its.epoch) + ": " + what_;
    }
  }

  bool IsServed(const Owner& owner) {
    for (const auto& one : servers_) {
      if (one->holder != owner.holder) continue;
      return one->is_served && !one->is_dead;
    }
    return false;
  }

  bool Before(FileOperation) {
    One* one = current;
    if (one == nullptr || one->is_dead) return one == nullptr;
    if (random_() % switch_one_in_ == 0) turns_.Yield(one->index);
    if (random_() % die_one_in_ != 0) return true;
    ++deaths_;
    Note(*one, "dies");
    one->is_dead = true;
    one->is_serving = one->is_served = false;
    return false;
  }

  static thread_local One* current;

  std::mt19937 random_;
  const Canary canary_;
  Turns turns_;
  const SnapshotFolder folder_{tensorflow::Env::Default(), "held://job", "ps:3"};
  unsigned switch_one_in_ = 1, die_one_in_ = 1;
  std::vector<std::unique_ptr<One>> servers_;
  One* wanted_ = nullptr;  // a server that waits for the owner to close
  int updates_ = 0;        // of all
  int moved_ = 0, kept_ = 0, deaths_ = 0;
  std::string what_, wrong_;
};

thread_local Moves::One* Moves::current = nullptr;

TEST(HandoverTest, OneServerHasTheTaskEvenIfTheOtherDiesOrHangs) {
  // Of a run that is to be repeated: its number of seeds, and the first.
  const char *seeds = std::getenv("FUSEWIRE_TEST_SEEDS"), *begin = std::getenv("FUSEWIRE_TEST_FIRST_SEED");
  const int count = seeds == nullptr ? 10000 : std::atoi(seeds);
  const auto first = begin == nullptr ? static_cast<unsigned>(Clock::Real()->NowNs())
                                      : static_cast<unsigned>(std::strtoul(begin, nullptr, 10));
  int moved = 0, kept = 0, deaths = 0;
  for (unsigned seed = first; seed != first + static_cast<unsigned>(count); ++seed) {
    Moves moves(seed, Canary::kNone);
    ASSERT_EQ(moves.Play(), "") << "seed " << seed;
    moved += moves.moved();
    kept += moves.kept();
    deaths += moves.deaths();
  }
  if (count < 1000) return;  // too few for the following
  EXPECT_GT(moved, count / 20);
  EXPECT_GT(kept, count / 100);
  EXPECT_GT(deaths, count / 20);
  RecordProperty("moved", moved);
  RecordProperty("kept", kept);
}

TEST(HandoverTest, ATaskThatHasMovedIsNotLostToItsFormerOwner) {
  HeldFiles::Get().Reset(nullptr);
  const SnapshotFolder folder(tensorflow::Env::Default(), "held://job", "ps:3");
  const auto make = [&folder](uint64_t holder) {
    Claim claim;
    claim.holder = holder;
    claim.wait = [] {};
    return std::make_unique<Ownership>(folder, "ps:3", "default", std::move(claim));
  };
  const auto former = make(1), next = make(2);
  ASSERT_TRUE(former->DoClaim().ok() && former->SetAddress("a:1").ok() && next->SetAddress("b:2").ok());
  ASSERT_TRUE(next->Succeed(former->tenure()).ok());
  // It has waited for the next owner to give way, claims one epoch more, and dies.
  Owner tried = former->own();
  tried.epoch = next->own().epoch + 1;
  tried.address.clear();
  ASSERT_TRUE(folder.WriteOwner(tried).ok());
  EXPECT_TRUE(next->Check().ok());
  EXPECT_TRUE(make(3)->Succeed(next->tenure()).ok()) << "it can't be moved again";
  EXPECT_FALSE(next->Check().ok()) << "the third server has it";
}

TEST(HandoverTest, AServerThatTrustsItsMemoryMoreThanTheFolderIsCaught) {
  for (Canary canary : {Canary::kOpensWithoutTheFolder, Canary::kServesWithoutTheFolder}) {
    bool is_caught = false;
    for (unsigned seed = 0; seed < 5000 && !is_caught; ++seed) is_caught = !Moves(seed, canary).Play().empty();
    EXPECT_TRUE(is_caught) << static_cast<int>(canary);
  }
}

}  // namespace
}  // namespace fusewire::tf
