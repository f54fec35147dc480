// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/p2p/flow.h"

#include <gtest/gtest.h>

namespace fusewire::p2p {
namespace {

constexpr uint64_t kUnexpectedMax = 1000;
constexpr Flow::Terms kTerms{100, 500, 2};

TEST(Flow, TakesSmallMessagesWithinCreditAndOffersWithinTheirNumber) {
  Flow flow;
  EXPECT_FALSE(flow.TakesEager(0, CostOf(0, 0)));  // no pipe yet
  EXPECT_FALSE(flow.TakesOffer());
  flow.Begin(kTerms, kUnexpectedMax, kUnexpectedMax);
  EXPECT_TRUE(flow.TakesEager(100, CostOf(0, 100)));
  EXPECT_FALSE(flow.TakesEager(101, CostOf(0, 101)));
  flow.SpendCredit(CostOf(0, 100));
  flow.SpendCredit(CostOf(0, 100));
  EXPECT_EQ(flow.credit, 500 - 2 * CostOf(0, 100));
  EXPECT_TRUE(flow.TakesEager(100, CostOf(0, 100)));
  EXPECT_FALSE(flow.TakesEager(100, CostOf(100, 100)));  // a head costs too
  flow.OfferSent();
  EXPECT_TRUE(flow.TakesOffer());
  flow.OfferSent();
  EXPECT_FALSE(flow.TakesOffer());
  flow.OfferEnded();
  EXPECT_TRUE(flow.TakesOffer());
}

TEST(Flow, CreditHasALimit) {
  Flow flow;
  flow.Begin(kTerms, kUnexpectedMax, kUnexpectedMax);
  EXPECT_TRUE(flow.AddCredit(kCreditMax - 500));
  EXPECT_EQ(flow.credit, kCreditMax);
  EXPECT_FALSE(flow.AddCredit(1));
  EXPECT_EQ(flow.credit, kCreditMax);
}

TEST(Flow, APeerSpendsAtMostWhatItWasPromised) {
  Flow flow;
  flow.Begin(kTerms, 300, kUnexpectedMax);
  EXPECT_TRUE(flow.SpendPromised(200));
  EXPECT_FALSE(flow.SpendPromised(101));
  EXPECT_TRUE(flow.SpendPromised(100));
  EXPECT_FALSE(flow.SpendPromised(1));
}

TEST(Flow, WhatIsKeptOutlivesItsPipeAndCountsOnTheNext) {
  Flow flow;
  flow.Begin(kTerms, kUnexpectedMax, kUnexpectedMax);
  ASSERT_TRUE(flow.SpendPromised(400));
  flow.Held(false, 400);
  flow.Held(true, 0);
  EXPECT_EQ(flow.offers_held, 1u);
  flow.Freed(true, 0);
  // The next pipe promised what was left, and 100 have been received since.
  flow.Freed(false, 100);
  flow.Begin(kTerms, 600, kUnexpectedMax);
  EXPECT_EQ(flow.promised, 600u);
  EXPECT_EQ(flow.owed, 100u);
  EXPECT_EQ(flow.promised + flow.owed + flow.unexpected_bytes, kUnexpectedMax);
}

TEST(Flow, NoMoreIsFreedThanWasHeld) {
  Flow flow;
  flow.Begin(kTerms, kUnexpectedMax, kUnexpectedMax);
  flow.Held(false, 400);
  EXPECT_DEATH(flow.Freed(false, 401), "cost <= unexpected_bytes");
  EXPECT_DEATH(flow.Freed(true, 0), "offers_held > 0");
}

TEST(Flow, StartsAgainWithEachPipe) {
  Flow flow;
  flow.Begin(kTerms, kUnexpectedMax, kUnexpectedMax);
  flow.SpendCredit(500);
  flow.offers_out = 2;
  flow.unaddressed_in = 7;
  uint64_t crossed = 0;
  ASSERT_TRUE(flow.posted_receives.Add({1, 2, 3}, 0, &crossed));
  flow.Begin(kTerms, kUnexpectedMax, kUnexpectedMax);
  EXPECT_EQ(flow.credit, 500u);
  EXPECT_EQ(flow.offers_out, 0u);
  EXPECT_EQ(flow.unaddressed_in, 0u);
  EXPECT_EQ(flow.posted_receives.size(), 0u);
}

}  // namespace
}  // namespace fusewire::p2p
