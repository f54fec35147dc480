// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/home/step_list.h"

#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

using Way = FasterWay::Way;

// Steps of these lengths, until one is not timed any more: its way.
Way Settled(FasterWay* faster, int64_t executor_ns, int64_t list_ns) {
  for (int step = 0; step < 100; ++step) {
    const FasterWay::Choice choice = faster->Next();
    if (step >= 2 && !choice.is_timed) return choice.way;
    if (choice.is_timed) faster->Took(choice.way, choice.way == Way::kList ? list_ns : executor_ns);
  }
  ADD_FAILURE() << "it is still looking";
  return Way::kExecutor;
}

TEST(FasterWay, IsTheListIfThatIsFasterOrEqual) {
  FasterWay faster;
  EXPECT_EQ(Settled(&faster, 1000, 900), Way::kList);
  FasterWay equal;
  EXPECT_EQ(Settled(&equal, 1000, 1010), Way::kList);
}

TEST(FasterWay, IsTheExecutorIfThatIsFaster) {
  FasterWay faster;
  EXPECT_EQ(Settled(&faster, 1000, 1300), Way::kExecutor);
}

// How many steps pass until one is timed again.
int Pause(FasterWay* faster) {
  int steps = 0;
  while (steps < 1'000'000 && !faster->Next().is_timed) ++steps;
  return steps;
}

// The first steps of a job may mislead, and the machine or the graph's inputs may change.
TEST(FasterWay, IsLookedForAgainSoonAndThenSeldom) {
  FasterWay faster;
  ASSERT_EQ(Settled(&faster, 1000, 1300), Way::kExecutor);
  EXPECT_LT(Pause(&faster), 1000);
  EXPECT_EQ(Settled(&faster, 1000, 500), Way::kList);
  int pause = 0;
  for (int look = 0; look < 5; ++look) {
    pause = Pause(&faster);
    EXPECT_EQ(Settled(&faster, 1000, 500), Way::kList);
  }
  EXPECT_GT(pause, 10'000);
  EXPECT_LT(pause, 100'000);
}

TEST(FasterWay, AFixedWayIsNotTimed) {
  FasterWay faster;
  faster.Keep(Way::kExecutor);
  for (int step = 0; step < 100; ++step) {
    const FasterWay::Choice choice = faster.Next();
    EXPECT_FALSE(choice.is_timed);
    EXPECT_EQ(choice.way, Way::kExecutor);
  }
}

TEST(StepThread, IsHereWhileItLasts) {
  EXPECT_FALSE(StepThread::IsHere());
  {
    StepThread here;
    EXPECT_TRUE(StepThread::IsHere());
  }
  EXPECT_FALSE(StepThread::IsHere());
}

}  // namespace
}  // namespace fusewire::tf
