// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/p2p/posted_receives.h"

#include <gtest/gtest.h>

namespace fusewire::p2p {
namespace {

bool Add(PostedReceives* receives, const PostedReceives::Posted& posted, uint64_t seen) {
  uint64_t crossed = 7;
  const bool added = receives->Add(posted, seen, &crossed);
  EXPECT_EQ(crossed, 0u);
  return added;
}

uint64_t CrossedBy(PostedReceives* receives, const PostedReceives::Posted& posted, uint64_t seen) {
  uint64_t crossed = 0;
  EXPECT_TRUE(receives->Add(posted, seen, &crossed));
  return crossed;
}

TEST(PostedReceives, AreTakenInOrderByTag) {
  PostedReceives receives;
  EXPECT_EQ(receives.Take(5).receive, 0u);
  EXPECT_TRUE(Add(&receives, {5, 1, 100}, 0));
  EXPECT_TRUE(Add(&receives, {6, 2, 100}, 0));
  EXPECT_TRUE(Add(&receives, {5, 3, 200}, 0));
  EXPECT_EQ(receives.Take(5).receive, 1u);
  EXPECT_EQ(receives.Take(5).bytes, 200u);
  EXPECT_EQ(receives.Take(5).receive, 0u);
  EXPECT_EQ(receives.Take(6).receive, 2u);
}

TEST(PostedReceives, ThatCrossAMessageOfTheirTagAreForgotten) {
  PostedReceives receives;
  receives.OnUnaddressed(5, 0);
  receives.OnUnaddressed(6, 0);
  EXPECT_TRUE(Add(&receives, {5, 1, 100}, 0));  // the peer had not seen the first
  EXPECT_EQ(receives.size(), 0u);
  EXPECT_TRUE(Add(&receives, {5, 2, 100}, 1));  // it had
  EXPECT_EQ(receives.Take(5).receive, 2u);
  EXPECT_FALSE(Add(&receives, {5, 3, 100}, 3)) << "more than were sent";
}

TEST(PostedReceives, ThatCrossAnOfferAreTheOnesThatItIsMatchedWith) {
  PostedReceives receives;
  receives.OnUnaddressed(5, 0);   // a small message
  receives.OnUnaddressed(5, 11);  // the peer has seen these two
  receives.OnUnaddressed(5, 12);
  receives.OnUnaddressed(6, 13);
  receives.OnUnaddressed(5, 0);
  receives.OnUnaddressed(5, 14);
  EXPECT_EQ(CrossedBy(&receives, {5, 1, 100}, 2), 12u);
  EXPECT_EQ(CrossedBy(&receives, {5, 2, 100}, 2), 0u);  // that one meets the small message
  EXPECT_EQ(CrossedBy(&receives, {5, 3, 100}, 3), 14u);
  EXPECT_EQ(CrossedBy(&receives, {6, 4, 100}, 3), 13u);
  EXPECT_EQ(CrossedBy(&receives, {5, 5, 100}, 3), 0u);
  EXPECT_EQ(receives.size(), 0u);
  EXPECT_EQ(CrossedBy(&receives, {5, 6, 100}, 6), 0u);
  EXPECT_EQ(receives.Take(5).receive, 6u);
}

TEST(PostedReceives, AreForgottenWhereNothingIsCertain) {
  PostedReceives receives;
  for (int i = 0; i < 1000; ++i) receives.OnUnaddressed(7, 1);
  EXPECT_TRUE(Add(&receives, {5, 1, 100}, 0));
  EXPECT_EQ(receives.size(), 0u);
  for (uint64_t i = 1; i <= 10000; ++i) EXPECT_TRUE(Add(&receives, {i, i, 100}, 1000));
  EXPECT_EQ(receives.size(), 4096u);
  receives.Clear();
  EXPECT_EQ(receives.Take(1).receive, 0u);
}

}  // namespace
}  // namespace fusewire::p2p
