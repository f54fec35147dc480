// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/buffer/budget.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"
#include "fusewire/base/random.h"

namespace fusewire {
namespace {

// Counts how often it is told that there is room.
struct Waiter {
  explicit Waiter(Budget* budget) : share(budget, [this] { ++woken; }) {}
  int woken = 0;
  Budget::Share share;
};

class BudgetTest : public testing::Test {
 protected:
  Budget budget_{100};
  Budget::Share anna_{&budget_}, bert_{&budget_}, carl_{&budget_};
};

TEST_F(BudgetTest, GrantsAllOrNothing) {
  EXPECT_EQ(budget_.limit_bytes(), 100u);
  EXPECT_TRUE(anna_.TryReserve(60));
  EXPECT_FALSE(anna_.TryReserve(41));
  EXPECT_EQ(budget_.used_bytes(), 60u);
  EXPECT_TRUE(anna_.TryReserve(40));
  EXPECT_FALSE(anna_.TryReserve(1));
  EXPECT_TRUE(anna_.TryReserve(0));
  EXPECT_EQ(anna_.bytes(), 100u);
  anna_.Release(30);
  EXPECT_TRUE(anna_.TryReserve(30));
  anna_.Release(100);
  EXPECT_EQ(budget_.used_bytes(), 0u);
  EXPECT_EQ(budget_.peak_bytes(), 100u);
}

TEST_F(BudgetTest, AWishLargerThanAllOfItPassesAlone) {
  EXPECT_TRUE(anna_.TryReserve(1));
  EXPECT_FALSE(bert_.TryReserve(500));
  anna_.Release(1);
  EXPECT_TRUE(bert_.TryReserve(500));
  EXPECT_FALSE(anna_.TryReserve(1));
  bert_.Release(450);  // in steps; 50 are left
  EXPECT_TRUE(anna_.TryReserve(50));
  EXPECT_FALSE(anna_.TryReserve(1));
  EXPECT_EQ(budget_.peak_bytes(), 500u);
}

TEST_F(BudgetTest, HugeWishesDoNotRunOver) {
  EXPECT_TRUE(anna_.TryReserve(1));
  EXPECT_FALSE(anna_.TryReserve(UINT64_MAX));
  EXPECT_FALSE(anna_.TryReserve(UINT64_MAX - 1));
  anna_.Release(1);
  EXPECT_TRUE(anna_.TryReserve(UINT64_MAX));
  EXPECT_FALSE(anna_.TryReserve(1));
  anna_.Release(UINT64_MAX);
  EXPECT_EQ(budget_.used_bytes(), 0u);
}

TEST_F(BudgetTest, KeepsTheOrderOfTheQueue) {
  ASSERT_TRUE(anna_.TryReserve(90));
  EXPECT_FALSE(bert_.TryReserve(50));
  EXPECT_FALSE(carl_.TryReserve(10));  // would fit, but Bert came first
  anna_.Release(90);
  EXPECT_FALSE(carl_.TryReserve(10));
  EXPECT_TRUE(bert_.TryReserve(50));
  EXPECT_TRUE(carl_.TryReserve(10));
}

TEST_F(BudgetTest, AWaiterThatGivesUpLetsTheNextOnePass) {
  ASSERT_TRUE(anna_.TryReserve(90));
  EXPECT_FALSE(bert_.TryReserve(50));
  EXPECT_FALSE(carl_.TryReserve(10));
  bert_.GiveUp();
  EXPECT_TRUE(carl_.TryReserve(10));
  bert_.GiveUp();  // no harm
}

TEST_F(BudgetTest, AWaiterMayLeaveTheQueueAnywhere) {
  Budget::Share dora(&budget_);
  ASSERT_TRUE(anna_.TryReserve(90));
  EXPECT_FALSE(bert_.TryReserve(50));
  EXPECT_FALSE(carl_.TryReserve(50));
  EXPECT_FALSE(dora.TryReserve(50));
  carl_.GiveUp();
  anna_.Release(90);
  EXPECT_FALSE(dora.TryReserve(50));
  EXPECT_TRUE(bert_.TryReserve(50));
  EXPECT_FALSE(carl_.TryReserve(1));  // behind Dora now
  EXPECT_TRUE(dora.TryReserve(40));
  EXPECT_TRUE(carl_.TryReserve(1));
}

TEST_F(BudgetTest, IsWantedWhileAnyoneWaits) {
  EXPECT_TRUE(anna_.TryReserve(100));
  EXPECT_FALSE(budget_.wanted());
  EXPECT_FALSE(bert_.TryReserve(1));
  EXPECT_FALSE(carl_.TryReserve(1));
  EXPECT_TRUE(budget_.wanted());
  anna_.Release(1);
  EXPECT_TRUE(bert_.TryReserve(1));
  EXPECT_TRUE(budget_.wanted());
  carl_.GiveUp();
  EXPECT_FALSE(budget_.wanted());
}

TEST_F(BudgetTest, TheFirstIsToldWhenThereIsRoom) {
  Waiter first(&budget_), second(&budget_);
  ASSERT_TRUE(anna_.TryReserve(100));
  EXPECT_FALSE(first.share.TryReserve(30));
  EXPECT_FALSE(second.share.TryReserve(10));
  anna_.Release(20);
  EXPECT_EQ(first.woken, 0);  // not enough for it
  anna_.Release(10);
  EXPECT_EQ(first.woken, 1);
  anna_.Release(10);
  EXPECT_EQ(first.woken, 1);  // it has been told
  EXPECT_EQ(second.woken, 0);
  EXPECT_TRUE(first.share.TryReserve(30));
  EXPECT_EQ(second.woken, 1);
  EXPECT_TRUE(second.share.TryReserve(10));
  first.share.Release(30);
  EXPECT_EQ(first.woken, 1);  // nobody waits
}

TEST_F(BudgetTest, TheNextIsToldWhenTheFirstHasLeft) {
  Waiter second(&budget_);
  ASSERT_TRUE(anna_.TryReserve(90));
  {
    Budget::Share first(&budget_);
    EXPECT_FALSE(first.TryReserve(20));
    EXPECT_FALSE(second.share.TryReserve(10));
  }
  EXPECT_EQ(second.woken, 1);
  EXPECT_TRUE(second.share.TryReserve(10));
}

TEST(Budget, CountsWhatIsThereAlreadyBeyondItsLimit) {
  Budget budget(10);
  Budget::Share anna(&budget), bert(&budget);
  EXPECT_TRUE(budget.Take(6));
  EXPECT_FALSE(budget.Take(6));
  EXPECT_EQ(budget.used_bytes(), 12u);
  ASSERT_TRUE(anna.TryReserve(20));  // alone: what is taken is no obstacle
  EXPECT_FALSE(bert.TryReserve(1));
  anna.Release(20);
  ASSERT_TRUE(bert.TryReserve(1));
  EXPECT_FALSE(anna.TryReserve(1));
  budget.GiveBack(12);
  EXPECT_TRUE(anna.TryReserve(1));
}

// ---- paced ----

class PacedTest : public testing::Test {
 protected:
  PacedTest() {
    budget_.SetPace(1000);
    for (std::unique_ptr<Budget::Share>& share : many_) share = std::make_unique<Budget::Share>(&budget_);
  }
  Budget budget_{1 << 20};
  Budget::Share anna_{&budget_}, bert_{&budget_};
  Waiter carl_{&budget_};
  std::array<std::unique_ptr<Budget::Share>, 20> many_;
  int64_t now_ns_ = kSecondNs;
};

TEST_F(PacedTest, GrantsNoMoreAtOnceThanItsPace) {
  for (size_t i = 0; i < 20; ++i) ASSERT_TRUE(many_[i]->TryReserve(50, now_ns_, now_ns_));
  EXPECT_FALSE(carl_.share.TryReserve(50, now_ns_, now_ns_));
  EXPECT_TRUE(budget_.wanted());
  many_[7]->Release(50);
  EXPECT_EQ(carl_.woken, 1);
  EXPECT_TRUE(carl_.share.TryReserve(50, now_ns_, now_ns_));
}

TEST_F(PacedTest, EightLargeHoldersDoNotWait) {
  for (size_t i = 0; i < 8; ++i) {
    for (int step = 0; step < 10; ++step) ASSERT_TRUE(many_[i]->TryReserve(500, now_ns_, now_ns_));
    EXPECT_FALSE(budget_.wanted());
  }
  EXPECT_FALSE(carl_.share.TryReserve(500, now_ns_, now_ns_));
  // Some time after the large ones, the pace is as before.
  now_ns_ += 2 * Pace::kPeriodNs;
  EXPECT_TRUE(carl_.share.TryReserve(50, now_ns_, now_ns_));
  for (size_t i = 0; i < 19; ++i) ASSERT_TRUE(many_[i]->TryReserve(50, now_ns_, now_ns_));
  EXPECT_FALSE(anna_.TryReserve(50, now_ns_, now_ns_));
}

TEST_F(PacedTest, SlowHoldersKeepNobodyWaiting) {
  for (size_t i = 0; i < 17; ++i) ASSERT_TRUE(many_[i]->TryReserve(60, now_ns_, now_ns_));
  EXPECT_FALSE(carl_.share.TryReserve(60, now_ns_, now_ns_));
  now_ns_ += Pace::kPeriodNs;
  EXPECT_FALSE(carl_.share.TryReserve(60, now_ns_, now_ns_));
  now_ns_ += Pace::kPeriodNs;
  EXPECT_TRUE(carl_.share.TryReserve(60, now_ns_, now_ns_));
  many_[0]->Release(60);  // what does not count any more is not subtracted
  for (size_t i = 1; i < 17; ++i) ASSERT_TRUE(many_[i]->TryReserve(60, now_ns_, now_ns_));
  EXPECT_FALSE(anna_.TryReserve(60, now_ns_, now_ns_));
}

// It has not even looked whether there is more to read.
TEST_F(PacedTest, NoHolderIsSlowWhileItsReaderIsBusy) {
  for (size_t i = 0; i < 20; ++i) ASSERT_TRUE(many_[i]->TryReserve(50, now_ns_, now_ns_));
  EXPECT_FALSE(carl_.share.TryReserve(50, now_ns_ + Pace::kStuckNs / 2, now_ns_));
}

TEST_F(PacedTest, WhatHasArrivedCountsUntilItIsReturned) {
  for (size_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(many_[i]->TryReserve(50, now_ns_, now_ns_));
    many_[i]->Arrived();
  }
  now_ns_ += 10 * Pace::kPeriodNs;
  EXPECT_FALSE(carl_.share.TryReserve(50, now_ns_, now_ns_));
  many_[3]->Release(50);
  EXPECT_EQ(carl_.woken, 1);
  EXPECT_TRUE(carl_.share.TryReserve(50, now_ns_, now_ns_));
}

// A window that its peer keeps does not fill the caches.
TEST_F(PacedTest, WhatIsUsedDoesNotCountThoughItIsKept) {
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < 20; ++i) {
      ASSERT_TRUE(many_[i]->TryReserve(50, now_ns_, now_ns_));
      many_[i]->Arrived();
      many_[i]->Used(50);
    }
  }
  EXPECT_EQ(budget_.used_bytes(), 3000u);
  for (size_t i = 0; i < 20; ++i) ASSERT_TRUE(many_[i]->TryReserve(50, now_ns_, now_ns_));
  EXPECT_FALSE(carl_.share.TryReserve(50, now_ns_, now_ns_));
  many_[0]->Release(150);  // of the used ones
  EXPECT_EQ(carl_.woken, 0);
  many_[1]->Used(50);
  EXPECT_EQ(carl_.woken, 1);
  EXPECT_TRUE(carl_.share.TryReserve(50, now_ns_, now_ns_));
}

// Calls may wait for another one that is not granted.
TEST_F(PacedTest, IfNothingIsReturnedForLongWhatHasArrivedDoesNotCount) {
  for (size_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(many_[i]->TryReserve(51, now_ns_, now_ns_));
    many_[i]->Arrived();
    many_[i]->Release(1);
  }
  EXPECT_FALSE(carl_.share.TryReserve(50, now_ns_, now_ns_));
  now_ns_ += Pace::kStuckNs - 1;
  EXPECT_FALSE(carl_.share.TryReserve(50, now_ns_, now_ns_));
  now_ns_ += 1;
  EXPECT_TRUE(carl_.share.TryReserve(50, now_ns_, now_ns_));
  for (size_t i = 0; i < 20; ++i) many_[i]->Release(many_[i]->bytes());
  for (size_t i = 0; i < 19; ++i) ASSERT_TRUE(many_[i]->TryReserve(50, now_ns_, now_ns_));
  EXPECT_FALSE(anna_.TryReserve(50, now_ns_, now_ns_));
}

TEST_F(PacedTest, LaterOnesFindOutThatTheFirstHasRoom) {
  for (size_t i = 0; i < 20; ++i) ASSERT_TRUE(many_[i]->TryReserve(50, now_ns_, now_ns_));
  EXPECT_FALSE(carl_.share.TryReserve(50, now_ns_, now_ns_));
  now_ns_ += 2 * Pace::kPeriodNs;
  EXPECT_FALSE(bert_.TryReserve(50, now_ns_, now_ns_));
  EXPECT_EQ(carl_.woken, 1);
}

TEST_F(PacedTest, HugeWishesDoNotRunOver) {
  EXPECT_TRUE(anna_.TryReserve(UINT64_MAX, now_ns_));
  EXPECT_FALSE(bert_.TryReserve(UINT64_MAX, now_ns_));
  anna_.Release(UINT64_MAX);
  EXPECT_TRUE(bert_.TryReserve(1, now_ns_));
}

// ---- threads ----

TEST(Budget, HoldsUnderManyThreads) {
  constexpr uint64_t kLimit = 1000;
  constexpr int kThreads = 4;
  constexpr int kRounds = 5000;
  Budget budget(kLimit);
  std::atomic<uint64_t> held{0};
  std::atomic<uint64_t> granted{0};
  std::atomic<uint64_t> woken{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      Random random(static_cast<uint64_t>(i));
      Budget::Share share(&budget, [&woken] { ++woken; });
      for (int round = 0; round < kRounds; ++round) {
        const uint64_t bytes = random.Between(1, kLimit);
        if (!share.TryReserve(bytes)) {
          if (random.Below(4) == 0) share.GiveUp();
          continue;
        }
        ++granted;
        EXPECT_LE(held.fetch_add(bytes) + bytes, budget.limit_bytes());
        held.fetch_sub(bytes);
        const uint64_t first = random.Below(bytes + 1);
        share.Release(first);
        share.Release(bytes - first);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(granted, 0u);
  EXPECT_FALSE(budget.wanted());
  EXPECT_EQ(budget.used_bytes(), 0u);
  EXPECT_LE(budget.peak_bytes(), kLimit);
  EXPECT_GT(budget.peak_bytes(), 0u);
}

TEST(BudgetDeathTest, GivingBackMoreThanWasTakenIsOurBug) {
  Budget budget(10);
  Budget::Share share(&budget);
  ASSERT_TRUE(share.TryReserve(5));
  EXPECT_DEATH(share.Release(6), "bytes_ >= bytes");
}

TEST(BudgetDeathTest, OutlivesNoReservation) {
  EXPECT_DEATH(
      {
        auto budget = std::make_unique<Budget>(10);
        Budget::Share share(budget.get());
        (void)share.TryReserve(5);
        budget.reset();
      },
      "used_bytes\\(\\) == 0");
}

}  // namespace
}  // namespace fusewire
