// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/buffer/budget.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/base/random.h"

namespace fusewire {
namespace {

// Any address will do as a holder.
const int kAnna = 0;
const int kBert = 0;
const int kCarl = 0;

TEST(Budget, GrantsAllOrNothing) {
  Budget budget(100);
  EXPECT_EQ(budget.limit_bytes(), 100u);
  EXPECT_TRUE(budget.TryReserve(60, &kAnna));
  EXPECT_FALSE(budget.TryReserve(41, &kAnna));
  EXPECT_EQ(budget.used_bytes(), 60u);
  EXPECT_TRUE(budget.TryReserve(40, &kAnna));
  EXPECT_FALSE(budget.TryReserve(1, &kAnna));
  EXPECT_TRUE(budget.TryReserve(0, &kAnna));
  budget.Release(30);
  EXPECT_TRUE(budget.TryReserve(30, &kAnna));
  budget.Release(100);
  EXPECT_EQ(budget.used_bytes(), 0u);
  EXPECT_EQ(budget.peak_bytes(), 100u);
}

TEST(Budget, AWishLargerThanAllOfItPassesAlone) {
  Budget budget(100);
  EXPECT_TRUE(budget.TryReserve(1, &kAnna));
  EXPECT_FALSE(budget.TryReserve(500, &kBert));
  budget.Release(1);
  EXPECT_TRUE(budget.TryReserve(500, &kBert));
  EXPECT_FALSE(budget.TryReserve(1, &kAnna));
  budget.Release(450);  // in steps; 50 are left
  EXPECT_TRUE(budget.TryReserve(50, &kAnna));
  EXPECT_FALSE(budget.TryReserve(1, &kAnna));
  EXPECT_EQ(budget.peak_bytes(), 500u);
  budget.GiveUp(&kAnna);
  budget.Release(100);
}

TEST(Budget, HugeWishesDoNotRunOver) {
  Budget budget(100);
  EXPECT_TRUE(budget.TryReserve(1, &kAnna));
  EXPECT_FALSE(budget.TryReserve(UINT64_MAX, &kAnna));
  EXPECT_FALSE(budget.TryReserve(UINT64_MAX - 1, &kAnna));
  budget.Release(1);
  EXPECT_TRUE(budget.TryReserve(UINT64_MAX, &kAnna));
  EXPECT_FALSE(budget.TryReserve(1, &kAnna));
  budget.Release(UINT64_MAX);
  EXPECT_EQ(budget.used_bytes(), 0u);
}

TEST(Budget, KeepsTheOrderOfTheQueue) {
  Budget budget(100);
  ASSERT_TRUE(budget.TryReserve(90, &kAnna));
  EXPECT_FALSE(budget.TryReserve(50, &kBert));
  EXPECT_FALSE(budget.TryReserve(10, &kCarl));  // would fit, but Bert came first
  budget.Release(90);
  EXPECT_FALSE(budget.TryReserve(10, &kCarl));
  EXPECT_TRUE(budget.TryReserve(50, &kBert));
  EXPECT_TRUE(budget.TryReserve(10, &kCarl));
  budget.Release(60);
}

TEST(Budget, AWaiterThatGivesUpLetsTheNextOnePass) {
  Budget budget(100);
  ASSERT_TRUE(budget.TryReserve(90, &kAnna));
  EXPECT_FALSE(budget.TryReserve(50, &kBert));
  EXPECT_FALSE(budget.TryReserve(10, &kCarl));
  budget.GiveUp(&kBert);
  EXPECT_TRUE(budget.TryReserve(10, &kCarl));
  budget.GiveUp(&kBert);  // no harm
  budget.Release(100);
}

TEST(Budget, IsWantedWhileAnyoneWaits) {
  Budget budget(1);
  EXPECT_TRUE(budget.TryReserve(1, &kAnna));
  EXPECT_FALSE(budget.wanted());
  EXPECT_FALSE(budget.TryReserve(1, &kBert));
  EXPECT_FALSE(budget.TryReserve(1, &kCarl));
  EXPECT_TRUE(budget.wanted());
  budget.Release(1);
  EXPECT_TRUE(budget.TryReserve(1, &kBert));
  EXPECT_TRUE(budget.wanted());
  budget.GiveUp(&kCarl);
  EXPECT_FALSE(budget.wanted());
  budget.Release(1);
}

TEST(Budget, CountsWhatIsThereAlreadyBeyondItsLimit) {
  Budget budget(10);
  EXPECT_TRUE(budget.Take(6));
  EXPECT_FALSE(budget.Take(6));
  EXPECT_EQ(budget.used_bytes(), 12u);
  ASSERT_TRUE(budget.TryReserve(20, &kAnna));  // alone: what was taken does not stand in its way
  EXPECT_FALSE(budget.TryReserve(1, &kBert));
  budget.Release(20);
  ASSERT_TRUE(budget.TryReserve(1, &kBert));
  EXPECT_FALSE(budget.TryReserve(1, &kAnna));
  budget.GiveBack(12);
  EXPECT_TRUE(budget.TryReserve(1, &kAnna));
  budget.Release(2);
  EXPECT_EQ(budget.used_bytes(), 0u);
}

TEST(Budget, HoldsUnderManyThreads) {
  constexpr uint64_t kLimit = 1000;
  constexpr int kThreads = 4;
  constexpr int kRounds = 5000;
  Budget budget(kLimit);
  std::atomic<uint64_t> held{0};
  std::atomic<uint64_t> granted{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([i, &budget, &held, &granted] {
      Random random(static_cast<uint64_t>(i));
      for (int round = 0; round < kRounds; ++round) {
        const uint64_t bytes = random.Between(1, kLimit);
        if (!budget.TryReserve(bytes, &random)) {
          if (random.Below(4) == 0) budget.GiveUp(&random);
          continue;
        }
        ++granted;
        EXPECT_LE(held.fetch_add(bytes) + bytes, budget.limit_bytes());
        held.fetch_sub(bytes);
        const uint64_t first = random.Below(bytes + 1);
        budget.Release(first);
        budget.Release(bytes - first);
      }
      budget.GiveUp(&random);
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
  ASSERT_TRUE(budget.TryReserve(5, &kAnna));
  EXPECT_DEATH(budget.Release(6), "used_bytes\\(\\) >= bytes");
  budget.Release(5);
}

TEST(BudgetDeathTest, OutlivesNoReservation) {
  EXPECT_DEATH(
      {
        Budget budget(10);
        (void)budget.TryReserve(5, &kAnna);
      },
      "used_bytes\\(\\) == 0");
}

}  // namespace
}  // namespace fusewire
