// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/reactor/timer_wheel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "fusewire/base/random.h"

namespace fusewire::reactor {
namespace {

constexpr int64_t kTickNs = 1 << 16;

// The wheel beside the simplest thing that does the same: a list of what is due when.
class Model {
 public:
  Model(uint64_t seed, int64_t now_ns, size_t timers) : random_(seed), now_ns_(now_ns), wheel_(now_ns), dues_(timers) {
    for (size_t i = 0; i < timers; ++i) {
      timers_.push_back(std::make_unique<Timer>([this, i] { Fired(i); }));
    }
  }

  void Arm(size_t which, int64_t delay_ns) {
    dues_[which] = AddNs(now_ns_, delay_ns);
    wheel_.Arm(timers_[which].get(), dues_[which]);
    EXPECT_TRUE(timers_[which]->armed());
    EXPECT_EQ(timers_[which]->due_ns(), dues_[which]);
  }
  void Disarm(size_t which) {
    dues_[which] = 0;
    TimerWheel::Disarm(timers_[which].get());
    EXPECT_FALSE(timers_[which]->armed());
  }

  void AdvanceTo(int64_t now_ns) {
    now_ns_ = now_ns;
    wheel_.Advance(now_ns);
    for (size_t i = 0; i < dues_.size(); ++i) {
      bool overdue = dues_[i] != 0 && dues_[i] <= now_ns_ - kTickNs;
      EXPECT_FALSE(overdue) << "timer " << i << " is late by " << now_ns_ - dues_[i];
    }
    int64_t first_due_ns = kForeverNs;
    for (int64_t due_ns : dues_) {
      if (due_ns != 0) first_due_ns = std::min(first_due_ns, due_ns);
    }
    // Never late, apart from the one tick of rounding.
    int64_t next_ns = wheel_.NextNs();
    EXPECT_GT(next_ns, now_ns_ / kTickNs * kTickNs);
    if (first_due_ns < kForeverNs - kTickNs) {
      EXPECT_LE(next_ns, std::max(now_ns_, first_due_ns) + kTickNs);
    }
  }

  int64_t now_ns() const { return now_ns_; }
  int64_t NextNs() const { return wheel_.NextNs(); }
  int fired() const { return fired_; }
  bool any_armed() const {
    return std::any_of(dues_.begin(), dues_.end(), [](int64_t due_ns) { return due_ns != 0; });
  }
  int64_t Delay() { return static_cast<int64_t>(random_.Below(uint64_t{1} << random_.Below(50))); }
  Random& random() { return random_; }
  // A firing timer does something to others, itself too.
  bool lively = false;

 private:
  void Fired(size_t which) {
    EXPECT_NE(dues_[which], 0) << "timer " << which << " fired without being armed";
    EXPECT_LE(dues_[which], now_ns_) << "timer " << which << " is early";
    dues_[which] = 0;
    ++fired_;
    if (!lively) return;
    size_t other = random_.Below(timers_.size());
    if (random_.Chance(0.3)) Disarm(other);
    if (random_.Chance(0.3)) Arm(random_.Chance(0.5) ? which : other, Delay());
  }

  Random random_;
  int64_t now_ns_;
  TimerWheel wheel_;
  std::vector<int64_t> dues_;  // 0: not armed
  std::vector<std::unique_ptr<Timer>> timers_;
  int fired_ = 0;
};

// Random delays from nothing to two weeks, turned by random steps.
TEST(TimerWheel, IsNeverEarlyAndAtMostATickLate) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    Random start(seed);
    Model model(seed, static_cast<int64_t>(start.Below(uint64_t{1} << 55)), 50);
    model.lively = seed % 2 == 0;
    for (int round = 0; round < 500; ++round) {
      size_t which = model.random().Below(50);
      if (model.random().Chance(0.7)) model.Arm(which, model.Delay());
      if (model.random().Chance(0.1)) model.Disarm(which);
      int64_t step_ns = model.Delay() / 4;
      // Half of the steps are as long as a loop would sleep, and end exactly at the time that the wheel returns.
      if (model.random().Chance(0.5)) step_ns = std::min(model.Delay(), model.NextNs() - model.now_ns());
      model.AdvanceTo(model.now_ns() + std::max<int64_t>(0, step_ns));
    }
    EXPECT_GT(model.fired(), 50);
  }
}

// A loop that sleeps until NextNs each time fires every timer on its tick, without waking often.
TEST(TimerWheel, NextNsLeadsToEveryTimer) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    Model model(seed, static_cast<int64_t>(seed) * kSecondNs, 20);
    for (size_t i = 0; i < 20; ++i) model.Arm(i, model.Delay());
    int wakes = 0;
    while (model.any_armed()) {
      ASSERT_LT(++wakes, 20 * 6 + 64) << "woken in vain too often";
      ASSERT_LT(model.NextNs(), kForeverNs);
      model.AdvanceTo(std::max(model.NextNs(), model.now_ns()));
    }
    EXPECT_EQ(model.fired(), 20);
  }
}

// Every tick of a revolution of the first two rings, one timer each: none is forgotten at a ring's seam.
TEST(TimerWheel, HasNoSeams) {
  for (int64_t start : {int64_t{0}, int64_t{63}, int64_t{64}, int64_t{4095}, int64_t{4096 * 64 - 1}}) {
    TimerWheel wheel(start * kTickNs);
    std::vector<std::unique_ptr<Timer>> timers;
    int64_t now = start;
    for (int64_t delay = 1; delay <= 2 * 4096; ++delay) {
      timers.push_back(std::make_unique<Timer>([&now, due = start + delay] { EXPECT_EQ(now, due); }));
      wheel.Arm(timers.back().get(), (start + delay) * kTickNs);
    }
    while (now < start + 2 * 4096 + 1) EXPECT_LE(wheel.Advance(++now * kTickNs), 1);
    EXPECT_TRUE(std::none_of(timers.begin(), timers.end(), [](const auto& timer) { return timer->armed(); }));
  }
}

TEST(TimerWheel, WaitsForYearsAndForEver) {
  constexpr int64_t kDayNs = int64_t{24} * 3600 * kSecondNs;
  TimerWheel wheel(0);
  int fired = 0;
  Timer in_a_year([&fired] { ++fired; });
  Timer never([&fired] { fired += 100; });
  wheel.Arm(&in_a_year, 365 * kDayNs);
  wheel.Arm(&never, kForeverNs);
  for (int day = 1; day < 365; ++day) EXPECT_EQ(wheel.Advance(day * kDayNs), 0);
  EXPECT_EQ(fired, 0);
  EXPECT_EQ(wheel.Advance(365 * kDayNs + kTickNs), 1);
  EXPECT_EQ(fired, 1);
  EXPECT_EQ(wheel.Advance(3650 * kDayNs), 0);
  EXPECT_TRUE(never.armed());
}

TEST(TimerWheel, FiresWhatWasDueBeforeItWasArmed) {
  TimerWheel wheel(10 * kSecondNs);
  int fired = 0;
  Timer late([&fired] { ++fired; });
  wheel.Arm(&late, 0);
  wheel.Advance(10 * kSecondNs + kTickNs);
  EXPECT_EQ(fired, 1);
  wheel.Arm(&late, -5 * kSecondNs);
  wheel.Advance(10 * kSecondNs + 2 * kTickNs);
  EXPECT_EQ(fired, 2);
}

TEST(TimerWheel, ATimerMayDestroyItselfAndItsNeighbours) {
  struct Both {
    std::unique_ptr<Timer> first, second;
    int fired = 0;
  } both;
  auto end_both = [captured = &both] {
    Both* timers = captured;  // the capture goes with the timer
    ++timers->fired;
    timers->first.reset();
    timers->second.reset();
  };
  TimerWheel wheel(0);
  both.first = std::make_unique<Timer>(end_both);
  both.second = std::make_unique<Timer>(end_both);
  wheel.Arm(both.first.get(), kTickNs);
  wheel.Arm(both.second.get(), kTickNs);
  EXPECT_EQ(wheel.Advance(2 * kTickNs), 1);
  EXPECT_EQ(both.fired, 1);
  EXPECT_EQ(wheel.NextNs(), kForeverNs);
}

TEST(TimerWheel, ArmingAgainMovesTheTimer) {
  TimerWheel wheel(0);
  int fired = 0;
  Timer timer([&fired] { ++fired; });
  wheel.Arm(&timer, kSecondNs);
  wheel.Arm(&timer, 3 * kSecondNs);
  EXPECT_EQ(wheel.Advance(2 * kSecondNs), 0);
  wheel.Arm(&timer, 2 * kSecondNs + kMillisecondNs);
  EXPECT_EQ(wheel.Advance(2 * kSecondNs + 2 * kMillisecondNs), 1);
  EXPECT_EQ(wheel.Advance(10 * kSecondNs), 0);
  EXPECT_EQ(fired, 1);
}

}  // namespace
}  // namespace fusewire::reactor
