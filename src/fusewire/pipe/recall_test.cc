// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/window.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "fusewire/base/clock.h"

namespace fusewire::pipe {
namespace {

constexpr int64_t kSilentNs = 20 * kSecondNs, kPeriodNs = 3 * kSilentNs;
constexpr int64_t kLookNs = 20 * kMillisecondNs;
constexpr uint64_t kMib = 1 << 20;

// A peer that holds a part of the budget, and moves a little of it before each look.
struct Holder {
  Recall recall = Recall(kSilentNs);
  uint64_t held, moved = 0;
  int64_t now_ns = kSecondNs;

  explicit Holder(uint64_t bytes) : held(bytes) { recall.Look(held, moved, true, now_ns); }
  bool Look(bool wanted = true, int64_t after_ns = kLookNs) {
    now_ns += after_ns;
    return recall.Look(held, moved, wanted, now_ns);
  }
  void Move(uint64_t bytes) {
    bytes = std::min(bytes, held);
    held -= bytes;
    moved += bytes;
  }
  // When its time was over, if that was within `limit_ns`; otherwise -1.
  int64_t Ends(uint64_t bytes_per_s, int64_t limit_ns) {
    const int64_t began_ns = now_ns;
    while (now_ns - began_ns < limit_ns && held > 0) {
      Move(bytes_per_s * kLookNs / kSecondNs);
      if (Look()) return now_ns - began_ns;
    }
    return -1;
  }
};

TEST(Recall, APeerThatMovesNothingHasThreeSilences) {
  for (uint64_t held : {uint64_t{1}, 100 * kMib, uint64_t{1} << 40}) {
    Holder holder(held);
    const int64_t ended_ns = holder.Ends(0, 2 * kPeriodNs);
    EXPECT_GE(ended_ns, kPeriodNs);
    EXPECT_LE(ended_ns, kPeriodNs + kSecondNs);
  }
}

TEST(Recall, TooLittleIsLikeNothing) {
  EXPECT_EQ(Holder(100 * kMib).Ends(60 * 1000, kPeriodNs * 2) / kSecondNs, kPeriodNs / kSecondNs);
  EXPECT_EQ(Holder(uint64_t{1} << 40).Ends(kMib, kPeriodNs * 2) / kSecondNs, kPeriodNs / kSecondNs);
}

TEST(Recall, ASlowNetworkIsNotAFault) {
  // One of 16 peers behind 1 MB/s, and one that has it alone, with a message of many gigabytes.
  EXPECT_EQ(Holder(100 * kMib).Ends(1'000'000 / 14, 10'000 * kSecondNs), -1);
  EXPECT_EQ(Holder(10 << 10).Ends(1000, 100 * kSecondNs), -1);
  EXPECT_EQ(Holder(13'000 * kMib).Ends(1'000'000, 100 * kSecondNs), -1);
}

// What lying peers would hold for ever if a share of the rest were enough.
TEST(Recall, TheSmallestAllowedShareIsEnough) {
  Holder holder(1000 * kMib);
  const int64_t began_ns = holder.now_ns;
  while (holder.held > 0) {
    ASSERT_FALSE(holder.Look());
    if (holder.recall.waited_ns() < kPeriodNs - 2 * kLookNs) continue;
    holder.Move(std::max<uint64_t>(60 * 64 * 1024, holder.held / 240));
  }
  EXPECT_LE(holder.now_ns - began_ns, 5 * 3600 * kSecondNs);
}

TEST(Recall, TimeWithoutAWaiterDoesNotCount) {
  Holder holder(100 * kMib);
  for (int i = 0; i < 10'000; ++i) ASSERT_FALSE(holder.Look(false));
  EXPECT_GE(holder.Ends(0, 2 * kPeriodNs), kPeriodNs);
}

// Otherwise those who wait in turns, and give up, would wait for ever.
TEST(Recall, AShortTimeWithoutAWaiterDoesNotRestartIt) {
  Holder holder(100 * kMib);
  int looks = 0;
  while (!holder.Look(looks % 10 != 0)) ASSERT_LT(++looks, 4000);
}

TEST(Recall, GivingBackBeginsANewPeriod) {
  Holder holder(100 * kMib);
  ASSERT_EQ(holder.Ends(0, kPeriodNs - kSecondNs), -1);
  holder.Move(holder.held);
  ASSERT_FALSE(holder.Look());
  holder.held = 50 * kMib;
  ASSERT_FALSE(holder.Look());
  EXPECT_GE(holder.Ends(0, 2 * kPeriodNs), kPeriodNs - kSecondNs);
}

TEST(Recall, OurOwnSleepIsNotThePeersFault) {
  Holder holder(100 * kMib);
  ASSERT_FALSE(holder.Look(true, kLookNs));
  EXPECT_FALSE(holder.Look(true, 10 * kPeriodNs));
  EXPECT_LE(holder.recall.waited_ns(), kSilentNs);
}

}  // namespace
}  // namespace fusewire::pipe
