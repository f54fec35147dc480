// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/base/check.h"

#include <gtest/gtest.h>

namespace fusewire {
namespace {

TEST(CheckDeathTest, NamesThePromiseAndItsPlace) {
  const int apples = 2;
  EXPECT_DEATH(FUSEWIRE_CHECK(apples == 3), "check_test.cc:[0-9]+: apples == 3");
}

TEST(Check, EvaluatesItsConditionOnce) {
  int times = 0;
  FUSEWIRE_CHECK(++times == 1);
  EXPECT_EQ(times, 1);
}

TEST(CheckDeathTest, CostlyChecksHaveASwitchOfTheirOwn) {
  int times = 0;
  FUSEWIRE_DCHECK(++times == 1);
#ifdef FUSEWIRE_DCHECKS
  EXPECT_EQ(times, 1);
  EXPECT_DEATH(FUSEWIRE_DCHECK(times == 5), "times == 5");
#else
  EXPECT_EQ(times, 0);
  FUSEWIRE_DCHECK(times == 5);
#endif
}

}  // namespace
}  // namespace fusewire
