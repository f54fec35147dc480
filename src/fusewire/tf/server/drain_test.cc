// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Tests: server/moving.cc
#include "fusewire/tf/server/moving.h"

#include <unistd.h>

#include <csignal>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "fusewire/base/clock.h"
#include "fusewire/tf/server/hosting.h"
#include "fusewire/tf/server/moving.h"

namespace fusewire::tf {
namespace {

// Runs until a signal ends the process.
[[noreturn]] void Stay() {
  for (;;) pause();
}

class DrainDeathTest : public testing::Test {
 protected:
  DrainDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(DrainDeathTest, AProcessThatHasGivenItsTasksAwayEndsWithZero) {
  EXPECT_EXIT(
      {
        DrainBeforeTheEnd(10 * kSecondNs, [] { return IsDraining() ? TfStatus() : absl::InternalError("too early"); });
        kill(getpid(), SIGTERM);
        Stay();
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(DrainDeathTest, OneThatStillHasTasksEndsAsItWouldHave) {
  EXPECT_EXIT(
      {
        DrainBeforeTheEnd(10 * kSecondNs, [] { return absl::UnavailableError("nobody takes ps:1"); });
        kill(getpid(), SIGTERM);
        Stay();
      },
      testing::KilledBySignal(SIGTERM), "still has tasks: .*nobody takes ps:1");
}

TEST_F(DrainDeathTest, OneThatNeedsTooLongEndsInTime) {
  EXPECT_EXIT(
      {
        DrainBeforeTheEnd(50 * kMillisecondNs, []() -> TfStatus { Stay(); });
        kill(getpid(), SIGTERM);
        Stay();
      },
      testing::KilledBySignal(SIGTERM), "could not be moved in the time of FUSEWIRE_DRAIN");
}

TEST(DrainTest, WhileItDrainsAProcessTakesNothing) {
  EXPECT_FALSE(IsDraining());
  {
    const Draining draining;
    EXPECT_TRUE(IsDraining());
  }
  EXPECT_FALSE(IsDraining());
}

TEST(DrainTest, WithoutOtherServersNoTaskMoves) {
  std::string said;
  const TfStatus given = GiveAway("ps:3", 1000, {}, &said);
  EXPECT_THAT(std::string(given.message()), testing::HasSubstr("no other process takes ps:3"));
  EXPECT_EQ(ProcessId(), ProcessId());
  EXPECT_NE(ProcessId(), 0u);
}

}  // namespace
}  // namespace fusewire::tf
