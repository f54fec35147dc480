// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/spread.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace fusewire::observe {
namespace {

TEST(Spread, EachValueIsInABucketThatEndsAtMostAQuarterAboveIt) {
  for (uint64_t value = 1 << Spread::kLeastPower; value < uint64_t{1} << 38; value += value / 7 + 1) {
    const size_t bucket = Spread::BucketOf(value);
    EXPECT_LE(value, Spread::UpperBound(bucket)) << value;
    if (bucket > 0) {
      EXPECT_GT(value, Spread::UpperBound(bucket - 1)) << value;
    }
    EXPECT_LE(Spread::UpperBound(bucket), value + value / 4 + 1) << value;
  }
  EXPECT_EQ(Spread::BucketOf(0), 0u);
  EXPECT_EQ(Spread::BucketOf(UINT64_MAX), Spread::kBuckets - 1);
}

TEST(Spread, QuantilesAreThoseOfTheValues) {
  Spread spread;
  EXPECT_EQ(spread.Read().Quantile(0.5), 0u);
  for (uint64_t i = 1; i <= 1000; ++i) spread.Add(i * 1000);
  const Spread::Counts counts = spread.Read();
  EXPECT_EQ(counts.count, 1000u);
  EXPECT_EQ(counts.sum, 500'500'000u);
  EXPECT_GE(counts.Quantile(0.5), 500'000u);
  EXPECT_LE(counts.Quantile(0.5), 650'000u);
  EXPECT_GE(counts.Quantile(0.99), 990'000u);
  EXPECT_EQ(counts.Quantile(1), 1'000'000u);
}

TEST(Spread, ThreadsLoseNoValue) {
  Spread spread;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&spread] {
      for (uint64_t value = 0; value < 10'000; ++value) spread.Add(value * 100);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(spread.Read().count, 40'000u);
  EXPECT_EQ(spread.Read().max, 999'900u);
}

}  // namespace
}  // namespace fusewire::observe
