// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/reactor/spin.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "fusewire/base/clock.h"
#include "fusewire/base/random.h"

namespace fusewire::reactor {
namespace {

constexpr int64_t kMaxNs = 50 * kMicrosecondNs;
constexpr int64_t kWakeNs = 20 * kMicrosecondNs;  // what parking adds to a wait

struct Outcome {
  int spins = 0, hits = 0;
  int64_t spun_ns = 0;
};

// Lets the learner meet `events` events, each of which comes wait_ns after the loop ran out of work.
template <class WaitNs>
Outcome Meet(SpinLearner* learner, int events, WaitNs wait_ns) {
  Outcome outcome;
  for (int i = 0; i < events; ++i) {
    int64_t wait = wait_ns();
    int64_t budget = learner->NextSpinNs();
    EXPECT_GE(budget, 0);
    EXPECT_LE(budget, kMaxNs);
    if (budget == 0) {
      learner->Parked(wait + kWakeNs);
      continue;
    }
    ++outcome.spins;
    outcome.spun_ns += std::min(wait, budget);
    if (wait < budget) {
      ++outcome.hits;
      learner->Hit(wait);
    } else {
      learner->Miss();
    }
  }
  return outcome;
}

TEST(SpinLearner, SpinsWhenTheNextEventIsNear) {
  SpinLearner learner(kMaxNs);
  Meet(&learner, 100, [] { return 10 * kMicrosecondNs; });
  EXPECT_TRUE(learner.pays());
  Outcome outcome = Meet(&learner, 1000, [] { return 10 * kMicrosecondNs; });
  EXPECT_GE(outcome.spins, 980);  // it parks now and then, to compare
  EXPECT_EQ(outcome.hits, outcome.spins);
}

// Two processes on one processor: the event comes within the spin, but because of the spin it comes late.
TEST(SpinLearner, ParksWhereSpinningMakesThingsSlower) {
  SpinLearner learner(kMaxNs);
  int spins = 0;
  for (int i = 0; i < 2000; ++i) {
    if (learner.NextSpinNs() == 0) {
      learner.Parked(12 * kMicrosecondNs);
    } else {
      if (i >= 1000) ++spins;
      learner.Hit(20 * kMicrosecondNs);
    }
  }
  EXPECT_FALSE(learner.pays());
  EXPECT_LE(spins, 20);
  EXPECT_GT(spins, 0);  // it still looks whether that has changed
}

TEST(SpinLearner, ParksWhenItIsFar) {
  SpinLearner learner(kMaxNs);
  Meet(&learner, 100, [] { return 10 * kMillisecondNs; });
  EXPECT_FALSE(learner.pays());
  Outcome outcome = Meet(&learner, 10000, [] { return 10 * kMillisecondNs; });
  EXPECT_LE(outcome.spins, 10000 / 200);  // one now and then, to compare
  EXPECT_GE(outcome.spins, 10000 / 300);
}

TEST(SpinLearner, LearnsBothWaysAgainAndAgain) {
  SpinLearner learner(kMaxNs);
  for (int phase = 0; phase < 6; ++phase) {
    bool near = phase % 2 == 0;
    auto wait_ns = [near] { return near ? 5 * kMicrosecondNs : kMillisecondNs; };
    Meet(&learner, 2000, wait_ns);
    EXPECT_EQ(learner.pays(), near) << "phase " << phase;
  }
}

TEST(SpinLearner, GivesUpAfterAFewMisses) {
  SpinLearner learner(kMaxNs);
  Meet(&learner, 1000, [] { return 5 * kMicrosecondNs; });
  int misses = 0;
  while (learner.pays()) {
    if (learner.NextSpinNs() == 0) continue;
    learner.Miss();
    ASSERT_LT(++misses, 10);
  }
  EXPECT_GE(misses, 2);  // one late event is not a reason to stop
}

TEST(SpinLearner, SpinsAboutAsLongAsEventsTake) {
  SpinLearner learner(kMaxNs);
  Meet(&learner, 1000, [] { return 2 * kMicrosecondNs; });
  int64_t short_spin_ns = std::max(learner.NextSpinNs(), learner.NextSpinNs());  // one of two may be a park, to compare
  EXPECT_LE(short_spin_ns, 15 * kMicrosecondNs);
  EXPECT_GE(short_spin_ns, 4 * kMicrosecondNs);
  Meet(&learner, 1000, [] { return 9 * kMicrosecondNs; });
  EXPECT_GE(std::max(learner.NextSpinNs(), learner.NextSpinNs()), 18 * kMicrosecondNs);
}

// Half of the events near, half of them far: whatever it does, the time that it spins for nothing stays bounded.
TEST(SpinLearner, NeverSpinsMoreThanItWouldHaveToWait) {
  Random random(3);
  SpinLearner learner(kMaxNs);
  Outcome outcome = Meet(&learner, 10000, [&random] { return random.Chance(0.5) ? kMicrosecondNs : kSecondNs; });
  EXPECT_LE(outcome.spun_ns, int64_t{10000} * kMaxNs);
  EXPECT_GT(outcome.hits, outcome.spins / 3);
}

TEST(SpinLearner, ZeroTurnsItOff) {
  SpinLearner learner(0);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(learner.NextSpinNs(), 0);
}

}  // namespace
}  // namespace fusewire::reactor
