// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/partial_runs.h"

#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

TEST(PartialRuns, OneIsThereFromItsFirstCallToItsEnd) {
  PartialRuns runs;
  EXPECT_FALSE(runs.HasAny(0));
  runs.Keep(5, 0);
  runs.Keep(6, 1);
  runs.Keep(5, 2);
  runs.Drop(5);
  EXPECT_TRUE(runs.HasAny(3));
  runs.Drop(6);
  runs.Drop(7);
  EXPECT_FALSE(runs.HasAny(3));
}

TEST(PartialRuns, OneWithoutCallsIsForgotten) {
  PartialRuns runs;
  runs.Keep(5, 100);
  runs.Keep(6, 200);
  EXPECT_TRUE(runs.HasAny(200 + PartialRuns::kForgottenNs));
  EXPECT_FALSE(runs.HasAny(201 + PartialRuns::kForgottenNs));
  runs.Keep(6, 500);
  EXPECT_TRUE(runs.HasAny(500));
}

}  // namespace
}  // namespace fusewire::tf
