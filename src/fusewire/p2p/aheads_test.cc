// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/p2p/aheads.h"

#include <gtest/gtest.h>

namespace fusewire {
namespace p2p {
namespace {

TEST(Aheads, AreTakenInOrderByTag) {
  Aheads aheads;
  EXPECT_EQ(aheads.Take(5).receive, 0u);
  EXPECT_TRUE(aheads.OnAhead({5, 1, 100}, 0));
  EXPECT_TRUE(aheads.OnAhead({6, 2, 100}, 0));
  EXPECT_TRUE(aheads.OnAhead({5, 3, 200}, 0));
  EXPECT_EQ(aheads.Take(5).receive, 1u);
  EXPECT_EQ(aheads.Take(5).bytes, 200u);
  EXPECT_EQ(aheads.Take(5).receive, 0u);
  EXPECT_EQ(aheads.Take(6).receive, 2u);
}

TEST(Aheads, ThatCrossAMessageOfTheirTagAreForgotten) {
  Aheads aheads;
  aheads.OnUnaddressed(5);
  aheads.OnUnaddressed(6);
  EXPECT_TRUE(aheads.OnAhead({5, 1, 100}, 0));  // the peer had not seen the first
  EXPECT_EQ(aheads.size(), 0u);
  EXPECT_TRUE(aheads.OnAhead({5, 2, 100}, 1));  // it had
  EXPECT_EQ(aheads.Take(5).receive, 2u);
  EXPECT_FALSE(aheads.OnAhead({5, 3, 100}, 3)) << "more than were sent";
}

TEST(Aheads, AreForgottenWhereNothingIsCertain) {
  Aheads aheads;
  for (int i = 0; i < 1000; ++i) aheads.OnUnaddressed(7);
  EXPECT_TRUE(aheads.OnAhead({5, 1, 100}, 0));
  EXPECT_EQ(aheads.size(), 0u);
  for (uint64_t i = 1; i <= 10000; ++i) EXPECT_TRUE(aheads.OnAhead({i, i, 100}, 1000));
  EXPECT_EQ(aheads.size(), 4096u);
  aheads.Clear();
  EXPECT_EQ(aheads.Take(1).receive, 0u);
}

}  // namespace
}  // namespace p2p
}  // namespace fusewire
