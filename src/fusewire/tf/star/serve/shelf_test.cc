// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/serve/shelf.h"

#include <chrono>
#include <future>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "fusewire/base/mutex.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/tf/star/serve/task_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

using testing::ElementsAre;

class ShelfTest : public testing::Test {
 protected:
  ShelfTest() {
    homes_ = reactor::Pool::Around(home_.get());
    shelf_.SetHomes(*homes_);
    for (const char* session : {"one", "two"}) task_.Begin(session);
  }
  uint64_t Place(const std::string& session, const Piece* piece, const std::string& fingerprint = "neg") {
    uint64_t id = Shelf::kNotHere;
    TfStatus placed = shelf_.Place(session, fingerprint, piece == nullptr ? nullptr : &piece->request, &id, &again_);
    EXPECT_TRUE(placed.ok()) << placed;
    return id;
  }
  Shelf::LeasePtr Find(uint64_t id) {
    Shelf::LeasePtr lease;
    home_->Run([this, &lease, id] { lease = shelf_.Find(id); });
    return lease;
  }

  Again again_ = Again::kNever;
  ManualClock clock_;
  std::unique_ptr<reactor::Reactor> home_ = reactor::Reactor::MakeManual(&clock_);
  std::unique_ptr<reactor::Pool> homes_;
  Task task_;
  Shelf shelf_{&task_.env};
  const Piece neg_{"Neg", 1};
};

TEST_F(ShelfTest, APartIsNotHereUntilItIsPlaced) {
  EXPECT_EQ(Place("one", nullptr), Shelf::kNotHere);
  const uint64_t id = Place("one", &neg_);
  EXPECT_NE(id, Shelf::kNotHere);
  EXPECT_EQ(Place("one", nullptr), id);
  EXPECT_EQ(Place("one", &neg_), id);
  Shelf::LeasePtr lease = Find(id);
  ASSERT_NE(lease, nullptr);
  EXPECT_EQ(lease->session, "one");
  EXPECT_EQ(Find(id), lease);  // as the home remembers
  EXPECT_EQ(Find(id + 1), nullptr);
}

TEST_F(ShelfTest, SessionsShareAPartAndEachHasItsLease) {
  const uint64_t one = Place("one", &neg_), two = Place("two", nullptr);
  ASSERT_NE(two, Shelf::kNotHere);
  EXPECT_NE(one, two);
  EXPECT_EQ(Find(one)->part, Find(two)->part);
  EXPECT_EQ(Find(two)->session, "two");
}

TEST_F(ShelfTest, APartWithStateOfItsOwnIsOfOneSession) {
  Piece piece("Neg", 1);
  piece.WithState();
  const uint64_t one = Place("one", &piece, "queue");
  EXPECT_EQ(Place("two", nullptr, "queue"), Shelf::kNotHere);
  const uint64_t two = Place("two", &piece, "queue");
  EXPECT_NE(Find(one)->part, Find(two)->part);
}

TEST_F(ShelfTest, APartStaysAsLongAsASessionHasPlacedIt) {
  const uint64_t one = Place("one", &neg_), two = Place("two", &neg_);
  Shelf::LeasePtr running = Find(one);
  shelf_.Release("one");
  EXPECT_EQ(Find(one), nullptr);
  EXPECT_NE(Find(two), nullptr);
  // A run may outlast its lease.
  PartRun run;
  run.args.push_back(tensorflow::Tensor(2.0F));
  TfStatus ran = absl::InternalError("has not run");
  running->part->Run(&run, [&ran](const TfStatus& status) { ran = status; });
  EXPECT_TRUE(ran.ok()) << ran;
  EXPECT_EQ(run.rets[0].scalar<float>()(), -2.0F);
  shelf_.Release("two");
  EXPECT_EQ(Find(two), nullptr);
  EXPECT_EQ(Place("two", nullptr), Shelf::kNotHere);
  EXPECT_GT(Place("one", &neg_), two);  // no number is given twice
}

TEST_F(ShelfTest, SessionsThatAreOverAreFoundAndForgotten) {
  const uint64_t one = Place("one", &neg_), two = Place("two", &neg_);
  EXPECT_THAT(shelf_.ReleaseEnded(), ElementsAre());
  task_.End("one");
  EXPECT_THAT(shelf_.ReleaseEnded(), ElementsAre("one"));
  EXPECT_EQ(Find(one), nullptr);
  EXPECT_NE(Find(two), nullptr);
}

TEST_F(ShelfTest, AFailedPlacementSaysWhyAndLeavesNothing) {
  uint64_t id = 1;
  EXPECT_FALSE(shelf_.Place("nobody", "neg", &neg_.request, &id, &again_).ok());
  tensorflow::RegisterGraphRequest empty;
  EXPECT_FALSE(shelf_.Place("one", "empty", &empty, &id, &again_).ok());
  EXPECT_EQ(id, Shelf::kNotHere);
  Piece unknown("NoSuchOperation", 1);
  EXPECT_FALSE(shelf_.Place("one", "unknown", &unknown.request, &id, &again_).ok());
  EXPECT_EQ(Place("one", nullptr, "unknown"), Shelf::kNotHere);
}

TEST_F(ShelfTest, ManyThatPlaceTheSameAtOnceGetOne) {
  struct Ids {
    Mutex mutex;
    std::set<uint64_t> all FUSEWIRE_GUARDED_BY(mutex);
  } ids;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, &ids] {
      uint64_t id = Place("one", &neg_);
      MutexLock lock(ids.mutex);
      ids.all.insert(id);
    });
  }
  for (std::thread& thread : threads) thread.join();
  MutexLock lock(ids.mutex);
  EXPECT_EQ(ids.all.size(), 1u);
  EXPECT_EQ(ids.all.count(Shelf::kNotHere), 0u);
}

// A part calls a function on a constant: TensorFlow makes the function while it folds, leaves work of it in the task's
// pool, and its end waits for that work.
TEST_F(ShelfTest, ReleasingAPartDoesNotWaitForTheTasksPool) {
  Task task(0);  // its pool has no free thread, as if all were busy destroying parts
  task.Begin("one");
  Shelf shelf(&task.env);
  Piece piece("AddV2", 1);
  piece.CallOnConstant();
  uint64_t id = Shelf::kNotHere;
  TfStatus placed = shelf.Place("one", "called", &piece.request, &id, &again_);
  ASSERT_TRUE(placed.ok()) << placed;
  std::future<void> released = std::async(std::launch::async, [&shelf] { shelf.Release("one"); });
  EXPECT_EQ(released.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  const int left = task.RunHere();  // what was waited for; 2.21 leaves nothing
  if (FUSEWIRE_TF_MINOR < 21) {
    EXPECT_GT(left, 0);
  }
}

}  // namespace
}  // namespace fusewire::tf
