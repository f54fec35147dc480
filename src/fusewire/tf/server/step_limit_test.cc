// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/session.h"

#include <pthread.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fusewire/base/clock.h"

#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

constexpr int64_t kPatienceNs = 20 * kSecondNs;

template <typename Condition>
bool Await(const Condition& condition) {
  const int64_t ends_ns = Clock::Real()->NowNs() + kPatienceNs;
  while (!condition() && Clock::Real()->NowNs() < ends_ns) std::this_thread::yield();
  return condition();
}

// A step as the master runs it: a cancel that comes before it listens is lost.
struct LimitedStep {
  tensorflow::CallOptions call;
  std::atomic<int> cancels{0};

  ~LimitedStep() { call.ClearCancelCallback(); }
  void Listen() {
    call.SetCancelCallback([this] { ++cancels; });
  }
  bool AwaitCancels(int count) const {
    return Await([&] { return cancels >= count; });
  }
};

// Another step's limit is the clock.
void AwaitLimit(int limit_ms) {
  LimitedStep step;
  StepLimit limit(&step.call, limit_ms);
  EXPECT_TRUE(Await([&limit] { return limit.HasPassed(); }));
}

TEST(StepLimitTest, CancelsAStepThatListensOnlyAfterItsTimeIsUp) {
  LimitedStep step;
  StepLimit limit(&step.call, 1);
  EXPECT_TRUE(Await([&limit] { return limit.HasPassed(); }));
  step.Listen();
  EXPECT_TRUE(step.AwaitCancels(1));
  EXPECT_TRUE(limit.HasPassed());
}

TEST(StepLimitTest, CancelsUntilTheStepEnds) {
  LimitedStep step;
  step.Listen();
  {
    StepLimit limit(&step.call, 1);
    EXPECT_TRUE(step.AwaitCancels(3));
  }
  const int cancels = step.cancels;
  AwaitLimit(50);
  EXPECT_EQ(step.cancels, cancels);
}

TEST(StepLimitTest, LeavesAloneWhatEndsInTimeOrHasNoLimit) {
  LimitedStep in_time, endless, far;
  for (LimitedStep* step : {&in_time, &endless, &far}) step->Listen();
  StepLimit none(&endless.call, 0), late(&far.call, INT64_MAX);
  { StepLimit limit(&in_time.call, 300); }
  AwaitLimit(350);
  for (LimitedStep* step : {&in_time, &endless, &far}) EXPECT_EQ(step->cancels, 0);
  EXPECT_FALSE(none.HasPassed());
  EXPECT_FALSE(late.HasPassed());
}

// A limit that is earlier than all known ones wakes the thread.
TEST(StepLimitTest, TheirOrderIsThatOfTheirTimes) {
  LimitedStep late, early;
  late.Listen();
  early.Listen();
  StepLimit late_limit(&late.call, 60 * 1000), early_limit(&early.call, 1);
  EXPECT_TRUE(early.AwaitCancels(1));
  EXPECT_EQ(late.cancels, 0);
}

// The end of a step waits for a cancel that is under way: the call's options go with the step.
TEST(StepLimitTest, EndsWhileItIsBeingCancelled) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([] {
      for (int i = 0; i < 100; ++i) {
        auto step = std::make_unique<LimitedStep>();
        step->Listen();
        StepLimit limit(&step->call, 1);
        if (i % 2 == 0) Await([&limit] { return limit.HasPassed(); });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Not that of the first thread that has limited a step.
TEST(StepLimitTest, ItsThreadHasANameOfItsOwn) {
  LimitedStep step;
  std::string name(16, '\0');
  std::atomic<bool> named{false};
  step.call.SetCancelCallback([&] {
    if (!named.exchange(true)) pthread_getname_np(pthread_self(), name.data(), name.size());
    ++step.cancels;
  });
  {
    StepLimit limit(&step.call, 1);
    EXPECT_TRUE(step.AwaitCancels(1));
  }
  EXPECT_STREQ(name.c_str(), "fusewire/limits");
}

}  // namespace
}  // namespace fusewire::tf
