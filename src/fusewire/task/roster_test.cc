// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/task/service_listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "fusewire/base/random.h"

namespace fusewire::task {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kAwayNs = 1000;
const Roster::PipeId kFirst{0, 1}, kSecond{1, 1}, kThird{0, 2}, kFourth{1, 2};

TEST(Roster, ManyPipesOfOneIncarnationLiveTogether) {
  Roster roster(10, kAwayNs);
  EXPECT_THAT(roster.OnGreeted("worker:0", 7, kFirst, 0), IsEmpty());
  EXPECT_THAT(roster.OnGreeted("worker:0", 7, kSecond, 0), IsEmpty());
  EXPECT_THAT(roster.OnGreeted("worker:1", 8, kThird, 0), IsEmpty());
}

TEST(Roster, ANewIncarnationTakesThePlaceOfTheOldOne) {
  Roster roster(10, kAwayNs);
  roster.OnGreeted("worker:0", 7, kFirst, 0);
  roster.OnGreeted("worker:0", 7, kSecond, 0);
  roster.OnGreeted("worker:1", 1, kFourth, 0);
  EXPECT_THAT(roster.OnGreeted("worker:0", 8, kThird, 0), ElementsAre(kFirst, kSecond));
  EXPECT_THAT(roster.OnGreeted("worker:0", 8, kFirst, 0), IsEmpty());
}

TEST(Roster, ASupersededIncarnationDoesNotComeBack) {
  Roster roster(10, kAwayNs);
  roster.OnGreeted("worker:0", 7, kFirst, 0);
  roster.OnGreeted("worker:0", 8, kSecond, 0);
  EXPECT_THAT(roster.OnGreeted("worker:0", 7, kThird, 0), ElementsAre(kThird));
  roster.OnGone("worker:0", kSecond, 0);
  EXPECT_THAT(roster.OnGreeted("worker:0", 7, kFourth, 0), ElementsAre(kFourth));  // nor when its heir has gone
  EXPECT_THAT(roster.OnGreeted("worker:0", 8, kFirst, 0), IsEmpty());
}

// The older one had been stopped and came here only after the younger: which is which can't be told.
TEST(Roster, ATaskSupersededByMistakeComesBackOnceTheOtherIsAway) {
  Roster roster(10, kAwayNs);
  roster.OnGreeted("worker:0", 8, kFirst, 0);
  EXPECT_THAT(roster.OnGreeted("worker:0", 7, kSecond, 100), ElementsAre(kFirst));
  roster.OnGone("worker:0", kFirst, 100);
  EXPECT_THAT(roster.OnGreeted("worker:0", 8, kThird, 50 * kAwayNs), ElementsAre(kThird));
  roster.OnGone("worker:0", kThird, 50 * kAwayNs);
  roster.OnGone("worker:0", kSecond, 60 * kAwayNs);
  EXPECT_THAT(roster.OnGreeted("worker:0", 8, kFourth, 61 * kAwayNs - 1), ElementsAre(kFourth));
  EXPECT_THAT(roster.OnGreeted("worker:0", 8, kFirst, 61 * kAwayNs), IsEmpty());
  EXPECT_THAT(roster.OnGreeted("worker:0", 7, kSecond, 99 * kAwayNs), ElementsAre(kSecond));
}

TEST(Roster, PipesThatHaveGoneAreNotClosedAgain) {
  Roster roster(10, kAwayNs);
  roster.OnGreeted("worker:0", 7, kFirst, 0);
  roster.OnGreeted("worker:0", 7, kSecond, 0);
  roster.OnGone("worker:0", kFirst, 0);
  roster.OnGone("worker:0", kFirst, 0);   // no harm
  roster.OnGone("worker:9", kSecond, 0);  // nor here
  EXPECT_THAT(roster.OnGreeted("worker:0", 8, kThird, 0), ElementsAre(kSecond));
}

TEST(Roster, RemembersABoundedNumberOfTasks) {
  Roster roster(100, kAwayNs);
  for (uint64_t i = 0; i < 10000; ++i) {
    std::string name = "tool:" + std::to_string(i);
    roster.OnGreeted(name, 1, Roster::PipeId{0, i}, 0);
    roster.OnGone(name, Roster::PipeId{0, i}, 0);
    ASSERT_LE(roster.size(), 100u);
  }
  // Those that are here stay known, however many pass by.
  roster.OnGreeted("worker:0", 7, kFirst, 0);
  for (uint64_t i = 0; i < 10000; ++i) {
    std::string name = "tool:" + std::to_string(i);
    roster.OnGreeted(name, 1, Roster::PipeId{0, i + 5}, 0);
    roster.OnGone(name, Roster::PipeId{0, i + 5}, 0);
  }
  EXPECT_THAT(roster.OnGreeted("worker:0", 8, kSecond, 0), ElementsAre(kFirst));
}

TEST(Roster, RemembersABoundedNumberOfIncarnations) {
  Roster roster(10, kAwayNs);
  for (uint64_t incarnation = 1; incarnation <= 1000; ++incarnation) {
    EXPECT_THAT(roster.OnGreeted("worker:0", incarnation, kFirst, 0).size(), incarnation == 1 ? 0u : 1u);
  }
  EXPECT_THAT(roster.OnGreeted("worker:0", 995, kSecond, 0), ElementsAre(kSecond));
}

// At any time all pipes of a task that are not told to close are of one incarnation.
TEST(Roster, NeverLetsTwoIncarnationsOfATaskLiveTogether) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Roster roster(5, kAwayNs);
    std::map<std::string, std::map<Roster::PipeId, uint64_t>> open;
    for (uint64_t id = 0; id < 500; ++id) {
      std::string name = "worker:" + std::to_string(random.Below(3));
      std::map<Roster::PipeId, uint64_t>& pipes = open[name];
      if (random.Chance(0.3) && !pipes.empty()) {
        roster.OnGone(name, pipes.begin()->first, 0);
        pipes.erase(pipes.begin());
        continue;
      }
      uint64_t incarnation = random.Between(1, 4);
      Roster::PipeId pipe{random.Below(2), id};
      pipes[pipe] = incarnation;
      for (const Roster::PipeId& closed : roster.OnGreeted(name, incarnation, pipe, 0)) {
        ASSERT_EQ(pipes.count(closed), 1u);
        pipes.erase(closed);
      }
      std::set<uint64_t> alive;
      for (const auto& [there, its] : pipes) alive.insert(its);
      ASSERT_LE(alive.size(), 1u);
    }
  }
}

}  // namespace
}  // namespace fusewire::task
