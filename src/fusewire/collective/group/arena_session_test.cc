// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/group/arena_session.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "fusewire/base/random.h"
#include "fusewire/collective/arena/crew_test.h"
#include "fusewire/collective/group/group_operation.h"

namespace fusewire::collective {
namespace {

using Phase = ArenaSession::Phase;

std::unique_ptr<Arena> AnArena() { return Crew(1, {}).Join(0); }

TEST(ArenaSession, OpensOnceTheRanksHaveAgreed) {
  ArenaSession session;
  session.Reopen(0, true, false);
  EXPECT_EQ(session.BeginAgreeing(1), nullptr) << "of another epoch";
  ASSERT_NE(session.BeginAgreeing(0), nullptr);
  EXPECT_EQ(session.BeginAgreeing(0), nullptr) << "only the first";
  EXPECT_EQ(session.ArenaOf(0), nullptr);
  session.EndAgreeing(0, AnArena());
  EXPECT_TRUE(session.open());
  EXPECT_NE(session.ArenaOf(0), nullptr);
  EXPECT_EQ(session.ArenaOf(1), nullptr);
  EXPECT_TRUE(session.HasServed(kSetUpTurns - 1));
  EXPECT_FALSE(session.HasServed(kSetUpTurns));
  EXPECT_FALSE(session.IsPassedOn(1000));
}

TEST(ArenaSession, OneRankAloneUsesMessages) {
  ArenaSession session;
  session.Reopen(0, false, false);
  EXPECT_EQ(session.phase(), Phase::kMessages);
  EXPECT_EQ(session.BeginAgreeing(0), nullptr);
}

TEST(ArenaSession, AFailureElsewhereCancelsTheGatheringAlsoBeforeItBegins) {
  for (const bool before : {true, false}) {
    ArenaSession session;
    session.Reopen(0, true, false);
    if (before) session.FailAgreement();
    const auto agreement = session.BeginAgreeing(0);
    if (!before) session.FailAgreement();
    EXPECT_TRUE(agreement->gathering.cancelled());
    EXPECT_FALSE(agreement->messages.cancelled());
    session.EndAgreeing(0, nullptr);
    EXPECT_EQ(session.phase(), Phase::kMessages);
  }
}

TEST(ArenaSession, AnArenaThatComesTooLateIsClosed) {
  ArenaSession session;
  session.Reopen(0, true, false);
  const auto agreement = session.BeginAgreeing(0);
  session.Close();
  EXPECT_TRUE(agreement->gathering.cancelled());
  session.EndAgreeing(0, AnArena());
  EXPECT_EQ(session.phase(), Phase::kMessages);
  EXPECT_EQ(session.ArenaOf(0), nullptr);
}

// A call may return after the group has shrunk. Its turn must not count in the next epoch: a failure of the turn of
// that number would have no effect, and its operation would wait for its deadline.
TEST(ArenaSession, TheTurnsOfAnEpochDoNotCountInTheNextOne) {
  ArenaSession session;
  session.Reopen(0, true, false);
  ASSERT_NE(session.BeginAgreeing(0), nullptr);
  session.EndAgreeing(0, AnArena());
  session.Reopen(1, true, true);
  session.SetServed(0, 17);
  session.PassOn(0, 18);
  EXPECT_FALSE(session.HasServed(17));
  EXPECT_FALSE(session.IsPassedOn(18));
  session.Release();
}

// Drives a session through random events, as the threads of a lane may; Enter asserts that each transition is legal.
TEST(ArenaSession, KeepsItsInvariantsInRandomOrdersOfEvents) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    ArenaSession session;
    uint32_t epoch = 0;
    uint64_t turn = kSetUpTurns;
    std::set<uint64_t> passed_on;
    bool agreeing = false;
    session.Reopen(epoch, true, false);
    for (int event = 0; event < 200; ++event) {
      const Phase before = session.phase();
      const uint32_t of = random.Chance(0.8) || epoch == 0 ? epoch : epoch - 1;
      switch (random.Below(8)) {
        case 0:
          if (session.BeginAgreeing(of) == nullptr) break;
          EXPECT_EQ(before, Phase::kUntried);
          agreeing = true;
          break;
        case 1:
          if (!agreeing) break;
          session.EndAgreeing(of, random.Chance(0.7) ? AnArena() : nullptr);
          agreeing = false;
          break;
        case 2:
          session.PassOn(of, turn);
          if (of == epoch) passed_on.insert(turn);
          break;
        case 3:
          session.SetServed(of, turn);
          EXPECT_EQ(session.HasServed(turn), of == epoch && !session.IsPassedOn(turn));
          ++turn;
          break;
        case 4: session.Interrupt(); break;
        case 5:
          if (random.Chance(0.3)) session.Close();
          break;
        case 6: session.FailAgreement(); break;
        default:
          if (!random.Chance(0.2)) break;
          session.Reopen(++epoch, random.Chance(0.9), random.Chance(0.5));
          turn = kSetUpTurns;
          passed_on.clear();
          EXPECT_FALSE(session.HasServed(0));
          EXPECT_FALSE(session.IsPassedOn(turn));
      }
      EXPECT_EQ(session.ArenaOf(epoch) != nullptr, session.open());
      EXPECT_EQ(session.ArenaOf(epoch + 1), nullptr);
      EXPECT_EQ(session.IsPassedOn(turn), !passed_on.empty() && turn >= *passed_on.begin());
      for (const uint64_t one : passed_on) EXPECT_TRUE(session.IsPassedOn(one) && session.IsPassedOn(one + 1));
      if (random.Chance(0.5)) session.Release();
      EXPECT_TRUE(ArenaSession::IsLegal(before, session.phase()) || before == session.phase());
    }
  }
}

}  // namespace
}  // namespace fusewire::collective
