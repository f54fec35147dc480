// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// TensorFlow's headers need NDEBUG, and yet tests must have all checks, as in the rooms below.
#include <gtest/gtest.h>
#include "fusewire/base/check.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/tf/bridge/compat.h"

namespace fusewire::tf {
namespace {

TEST(ChecksDeathTest, AreOnInThePlugin) {
  const int apples = 2;
  EXPECT_DEATH(FUSEWIRE_DCHECK(apples == 3), "checks_test.cc:[0-9]+: apples == 3");
}

TEST(ChecksDeathTest, FindACallerThatIsNotAtHome) {
  ManualClock clock;
  auto home = reactor::Reactor::MakeManual(&clock);
  EXPECT_DEATH(FUSEWIRE_AT_HOME(*home), "AtHome");
  home->Run([&home] { FUSEWIRE_AT_HOME(*home); });
}

}  // namespace
}  // namespace fusewire::tf
