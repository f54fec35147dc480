// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/p2p/posted_receives.h"

#include <gtest/gtest.h>

namespace fusewire {
namespace p2p {
namespace {

TEST(PostedReceives, AreTakenInOrderByTag) {
  PostedReceives receives;
  EXPECT_EQ(receives.Take(5).receive, 0u);
  EXPECT_TRUE(receives.Add({5, 1, 100}, 0));
  EXPECT_TRUE(receives.Add({6, 2, 100}, 0));
  EXPECT_TRUE(receives.Add({5, 3, 200}, 0));
  EXPECT_EQ(receives.Take(5).receive, 1u);
  EXPECT_EQ(receives.Take(5).bytes, 200u);
  EXPECT_EQ(receives.Take(5).receive, 0u);
  EXPECT_EQ(receives.Take(6).receive, 2u);
}

TEST(PostedReceives, ThatCrossAMessageOfTheirTagAreForgotten) {
  PostedReceives receives;
  receives.OnUnaddressed(5);
  receives.OnUnaddressed(6);
  EXPECT_TRUE(receives.Add({5, 1, 100}, 0));  // the peer had not seen the first
  EXPECT_EQ(receives.size(), 0u);
  EXPECT_TRUE(receives.Add({5, 2, 100}, 1));  // it had
  EXPECT_EQ(receives.Take(5).receive, 2u);
  EXPECT_FALSE(receives.Add({5, 3, 100}, 3)) << "more than were sent";
}

TEST(PostedReceives, AreForgottenWhereNothingIsCertain) {
  PostedReceives receives;
  for (int i = 0; i < 1000; ++i) receives.OnUnaddressed(7);
  EXPECT_TRUE(receives.Add({5, 1, 100}, 0));
  EXPECT_EQ(receives.size(), 0u);
  for (uint64_t i = 1; i <= 10000; ++i) EXPECT_TRUE(receives.Add({i, i, 100}, 1000));
  EXPECT_EQ(receives.size(), 4096u);
  receives.Clear();
  EXPECT_EQ(receives.Take(1).receive, 0u);
}

}  // namespace
}  // namespace p2p
}  // namespace fusewire
