// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/serve/gate.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include "fusewire/base/clock.h"

namespace fusewire::tf {
namespace {

int64_t In(int64_t ns) { return AddNs(Clock::Real()->NowNs(), ns); }

TEST(GateTest, ACallThatComesWhileItIsClosedGoesOnWhenItOpens) {
  Gate gate;
  std::vector<bool> told;
  const auto kept = [&told](bool may_enter) { told.push_back(may_enter); };
  EXPECT_TRUE(gate.Enter(kept));
  gate.Leave();
  ASSERT_TRUE(gate.Close(In(0)));
  EXPECT_FALSE(gate.TryEnter());
  EXPECT_FALSE(gate.Enter(kept));
  EXPECT_FALSE(gate.Enter(kept));
  EXPECT_TRUE(told.empty());
  gate.Open();
  EXPECT_EQ(told, (std::vector<bool>{true, true}));
  EXPECT_TRUE(gate.Enter(kept));
  gate.Leave();
  EXPECT_EQ(told.size(), 2u);
}

TEST(GateTest, OnceItHasEndedAllThatComeEnd) {
  Gate gate;
  std::vector<bool> told;
  const auto kept = [&told](bool may_enter) { told.push_back(may_enter); };
  ASSERT_TRUE(gate.Close(In(0)));
  EXPECT_FALSE(gate.Enter(kept));
  gate.End();
  EXPECT_FALSE(gate.Enter(kept));
  EXPECT_EQ(told, (std::vector<bool>{false, false}));
  EXPECT_FALSE(gate.is_open());
}

TEST(GateTest, OneInsideKeepsItOpen) {
  Gate gate;
  bool has_entered = false;
  ASSERT_TRUE(gate.TryEnter());
  EXPECT_FALSE(gate.Close(In(kMillisecondNs)));
  EXPECT_TRUE(gate.Enter([&has_entered](bool may_enter) { has_entered = may_enter; }));
  gate.Leave();
  gate.Leave();
  EXPECT_TRUE(gate.Close(In(0)));
  EXPECT_FALSE(has_entered);
}

TEST(GateTest, ACallMayLeaveOnAnotherThread) {
  Gate gate;
  ASSERT_TRUE(gate.TryEnter());
  std::thread leaver([&gate] { gate.Leave(); });
  EXPECT_TRUE(gate.Close(In(10 * kSecondNs)));
  leaver.join();
}

// No call is inside while it is closed, while others come and leave at the same time; and none that came is forgotten.
TEST(GateTest, AmongManyThreadsItIsEmptyWhileItIsClosed) {
  constexpr int kThreads = 4, kClosings = 200;
  Gate gate;
  std::atomic<int> inside{0}, come{0}, ended{0};
  std::atomic<bool> is_closed{false}, is_over{false};
  const auto run = [&] {
    inside.fetch_add(1);
    EXPECT_FALSE(is_closed.load());
    inside.fetch_sub(1);
    ended.fetch_add(1);
    gate.Leave();
  };
  std::function<void(bool)> kept = [&](bool) {
    if (gate.Enter(kept)) run();
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      while (!is_over.load()) {
        come.fetch_add(1);
        if (gate.Enter(kept)) {
          run();
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  int closed = 0;
  for (; closed < kClosings && gate.Close(In(10 * kSecondNs)); ++closed) {
    is_closed = true;
    EXPECT_EQ(inside.load(), 0);
    is_closed = false;
    gate.Open();
  }
  is_over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(closed, kClosings);
  EXPECT_EQ(ended.load(), come.load());
}

}  // namespace
}  // namespace fusewire::tf
