// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/base/clock.h"

#include <gtest/gtest.h>

namespace fusewire {
namespace {

TEST(Clock, RealTimeNeverGoesBack) {
  Clock* clock = Clock::Real();
  int64_t before = clock->NowNs();
  EXPECT_GT(before, 0);
  for (int i = 0; i < 1000; ++i) {
    const int64_t now = clock->NowNs();
    ASSERT_GE(now, before);
    before = now;
  }
  while (clock->NowNs() == before) {
  }
}

TEST(Clock, TheLastTickIsOfTheSameClock) {
  const int64_t before = Clock::Real()->NowNs();
  const int64_t tick = CoarseNowNs();
  EXPECT_GT(tick, before - 100 * kMillisecondNs);  // a virtual machine may lose ticks
  EXPECT_LE(tick, Clock::Real()->NowNs());
}

TEST(ManualClock, StandsStillUntilTurned) {
  ManualClock clock;
  const int64_t start = clock.NowNs();
  EXPECT_NE(start, 0);
  EXPECT_EQ(clock.NowNs(), start);
  clock.Advance(5 * kMillisecondNs);
  EXPECT_EQ(clock.NowNs(), start + 5 * kMillisecondNs);
  clock.Set(7);
  EXPECT_EQ(clock.NowNs(), 7);
}

TEST(AddNs, StopsAtForever) {
  EXPECT_EQ(AddNs(1, 2), 3);
  EXPECT_EQ(AddNs(1, 0), 1);
  EXPECT_EQ(AddNs(kSecondNs, kForeverNs), kForeverNs);
  EXPECT_EQ(AddNs(kForeverNs, 1), kForeverNs);
  EXPECT_EQ(AddNs(kForeverNs - 1, 1), kForeverNs);
  EXPECT_EQ(AddNs(kForeverNs - 2, 1), kForeverNs - 1);
}

}  // namespace
}  // namespace fusewire
