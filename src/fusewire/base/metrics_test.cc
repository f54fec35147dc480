// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/base/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "fusewire/base/random.h"

namespace fusewire {
namespace {

TEST(Counter, IsReadWhileItsHomeCounts) {
  Counter counter;
  std::thread home([&counter] {
    for (int i = 0; i < 10000; ++i) counter.Add();
  });
  uint64_t before = 0;
  while (before < 10000) {
    const uint64_t now = counter.Read();
    ASSERT_GE(now, before);
    before = now;
  }
  home.join();
  counter.Add(5);
  EXPECT_EQ(counter.Read(), 10005u);
  counter.Set(1);
  EXPECT_EQ(counter.Read(), 1u);
}

TEST(Histogram, WithoutValuesIsAllZero) {
  const HistogramSnapshot snapshot = Histogram().Read();
  EXPECT_EQ(snapshot.count, 0u);
  EXPECT_EQ(snapshot.max, 0u);
  EXPECT_EQ(snapshot.p50, 0u);
  EXPECT_EQ(snapshot.p999, 0u);
  EXPECT_EQ(snapshot.mean(), 0.0);
}

TEST(Histogram, OneValueIsEveryPercentile) {
  for (uint64_t value : {uint64_t{0}, uint64_t{1}, uint64_t{3}, uint64_t{4}, uint64_t{1000}, UINT64_MAX}) {
    Histogram histogram;
    histogram.Add(value);
    const HistogramSnapshot snapshot = histogram.Read();
    EXPECT_EQ(snapshot.count, 1u);
    EXPECT_EQ(snapshot.max, value);
    EXPECT_EQ(snapshot.p50, value);  // a bucket's bound is never above the largest value
    EXPECT_EQ(snapshot.p999, value);
  }
}

// The value that a share of all values is at or below.
uint64_t Exact(const std::vector<uint64_t>& sorted, double share) {
  size_t index = 0;
  while (static_cast<double>(index + 1) < share * static_cast<double>(sorted.size())) ++index;
  return sorted[index];
}

TEST(Histogram, PercentilesAreNeverTooLowAndAtMostAQuarterTooHigh) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Histogram histogram;
    std::vector<uint64_t> values;
    uint64_t sum = 0;
    const size_t count = random.Between(1, 3000);
    for (size_t i = 0; i < count; ++i) {
      values.push_back(random.Next() >> random.Between(8, 63));  // all magnitudes
      sum += values.back();
      histogram.Add(values.back());
    }
    std::sort(values.begin(), values.end());
    const HistogramSnapshot snapshot = histogram.Read();
    EXPECT_EQ(snapshot.count, values.size());
    EXPECT_EQ(snapshot.sum, sum);
    EXPECT_EQ(snapshot.max, values.back());
    EXPECT_DOUBLE_EQ(snapshot.mean(), static_cast<double>(sum) / static_cast<double>(values.size()));
    const struct {
      double share;
      uint64_t got;
    } percentiles[] = {{0.5, snapshot.p50}, {0.9, snapshot.p90}, {0.99, snapshot.p99}, {0.999, snapshot.p999}};
    for (const auto& percentile : percentiles) {
      const uint64_t exact = Exact(values, percentile.share);
      EXPECT_GE(percentile.got, exact) << percentile.share;
      EXPECT_LE(percentile.got, exact + exact / 4) << percentile.share;
    }
  }
}

TEST(Histogram, AMergeHoldsWhatBothHeld) {
  Random random(7);
  Histogram left;
  Histogram right;
  Histogram both;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t value = random.Below(1 << 20);
    (i % 3 == 0 ? left : right).Add(value);
    both.Add(value);
  }
  left.Merge(right);
  const HistogramSnapshot merged = left.Read();
  const HistogramSnapshot expected = both.Read();
  EXPECT_EQ(merged.count, expected.count);
  EXPECT_EQ(merged.sum, expected.sum);
  EXPECT_EQ(merged.max, expected.max);
  EXPECT_EQ(merged.p50, expected.p50);
  EXPECT_EQ(merged.p99, expected.p99);
}

TEST(Histogram, SharedByThreadsLosesNoValue) {
  SharedHistogram histogram;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&histogram] {
      for (uint64_t value = 0; value < 10'000; ++value) histogram.Add(value * 100);
    });
  }
  for (std::thread& thread : threads) thread.join();
  SharedHistogram::Counts counts;
  const HistogramSnapshot snapshot = histogram.Read(&counts);
  EXPECT_EQ(snapshot.count, 40'000u);
  EXPECT_EQ(snapshot.max, 999'900u);
  uint64_t below = 0;
  for (size_t i = 0; SharedHistogram::UpperBound(i) < 1 << 16; ++i) below += counts[i];
  EXPECT_EQ(below, 4u * 656);  // 0 to 65,500
}

}  // namespace
}  // namespace fusewire
