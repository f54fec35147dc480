// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/roster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>

#include "fusewire/base/random.h"

namespace fusewire {
namespace pipe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const Seat kFirst{0, 1}, kSecond{1, 1}, kThird{0, 2}, kFourth{1, 2};

TEST(Roster, ManyPipesOfOneIncarnationLiveTogether) {
  Roster roster(10);
  EXPECT_THAT(roster.OnGreeted("worker:0", 7, kFirst), IsEmpty());
  EXPECT_THAT(roster.OnGreeted("worker:0", 7, kSecond), IsEmpty());
  EXPECT_THAT(roster.OnGreeted("worker:1", 8, kThird), IsEmpty());
}

TEST(Roster, ANewIncarnationTakesThePlaceOfTheOldOne) {
  Roster roster(10);
  roster.OnGreeted("worker:0", 7, kFirst);
  roster.OnGreeted("worker:0", 7, kSecond);
  roster.OnGreeted("worker:1", 1, kFourth);
  EXPECT_THAT(roster.OnGreeted("worker:0", 8, kThird), ElementsAre(kFirst, kSecond));
  EXPECT_THAT(roster.OnGreeted("worker:0", 8, kFirst), IsEmpty());
}

TEST(Roster, ASupersededIncarnationDoesNotComeBack) {
  Roster roster(10);
  roster.OnGreeted("worker:0", 7, kFirst);
  roster.OnGreeted("worker:0", 8, kSecond);
  EXPECT_THAT(roster.OnGreeted("worker:0", 7, kThird), ElementsAre(kThird));
  roster.OnGone("worker:0", kSecond);
  EXPECT_THAT(roster.OnGreeted("worker:0", 7, kFourth), ElementsAre(kFourth));  // nor when its heir has gone
  EXPECT_THAT(roster.OnGreeted("worker:0", 8, kFirst), IsEmpty());
}

TEST(Roster, PipesThatHaveGoneAreNotClosedAgain) {
  Roster roster(10);
  roster.OnGreeted("worker:0", 7, kFirst);
  roster.OnGreeted("worker:0", 7, kSecond);
  roster.OnGone("worker:0", kFirst);
  roster.OnGone("worker:0", kFirst);   // no harm
  roster.OnGone("worker:9", kSecond);  // nor here
  EXPECT_THAT(roster.OnGreeted("worker:0", 8, kThird), ElementsAre(kSecond));
}

TEST(Roster, RemembersABoundedNumberOfTasks) {
  Roster roster(100);
  for (uint64_t i = 0; i < 10000; ++i) {
    std::string name = "tool:" + std::to_string(i);
    roster.OnGreeted(name, 1, Seat{0, i});
    roster.OnGone(name, Seat{0, i});
    ASSERT_LE(roster.size(), 100u);
  }
  // Those that are here stay known, however many pass by.
  roster.OnGreeted("worker:0", 7, kFirst);
  for (uint64_t i = 0; i < 10000; ++i) {
    std::string name = "tool:" + std::to_string(i);
    roster.OnGreeted(name, 1, Seat{0, i + 5});
    roster.OnGone(name, Seat{0, i + 5});
  }
  EXPECT_THAT(roster.OnGreeted("worker:0", 8, kSecond), ElementsAre(kFirst));
}

TEST(Roster, RemembersABoundedNumberOfIncarnations) {
  Roster roster(10);
  for (uint64_t incarnation = 1; incarnation <= 1000; ++incarnation) {
    EXPECT_THAT(roster.OnGreeted("worker:0", incarnation, kFirst).size(), incarnation == 1 ? 0u : 1u);
  }
  EXPECT_THAT(roster.OnGreeted("worker:0", 995, kSecond), ElementsAre(kSecond));
}

// At any time all pipes of a task that are not told to close are of one incarnation.
TEST(Roster, NeverLetsTwoIncarnationsOfATaskLiveTogether) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Roster roster(5);
    std::map<std::string, std::map<Seat, uint64_t>> open;
    for (uint64_t id = 0; id < 500; ++id) {
      std::string name = "worker:" + std::to_string(random.Below(3));
      std::map<Seat, uint64_t>& pipes = open[name];
      if (random.Chance(0.3) && !pipes.empty()) {
        roster.OnGone(name, pipes.begin()->first);
        pipes.erase(pipes.begin());
        continue;
      }
      uint64_t incarnation = random.Between(1, 4);
      Seat seat{random.Below(2), id};
      pipes[seat] = incarnation;
      for (const Seat& closed : roster.OnGreeted(name, incarnation, seat)) {
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
}  // namespace pipe
}  // namespace fusewire
