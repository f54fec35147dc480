// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/tags.h"

#include <string>
#include <thread>
#include <vector>

#include "fusewire/observe/spread.h"

#include <gtest/gtest.h>

namespace fusewire::observe {
namespace {

TEST(Tags, TheSameNamesHaveTheSameTagAndShareTheirPeersLine) {
  Tags tags;
  const uint32_t first = tags.Find(Kind::kReceive, "worker:0", "ps:0", "weights");
  EXPECT_NE(first, 0u);
  EXPECT_EQ(tags.Find(Kind::kReceive, "worker:0", "ps:0", "weights"), first);
  const uint32_t second = tags.Find(Kind::kReceive, "worker:0", "ps:0", "bias");
  EXPECT_NE(second, first);
  EXPECT_EQ(tags.at(first).line, tags.at(second).line);
  const uint32_t provide = tags.Find(Kind::kProvide, "worker:0", "ps:0", "weights");
  EXPECT_NE(tags.at(provide).line, tags.at(first).line);
  EXPECT_EQ(tags.at(second).name, "bias");
  EXPECT_EQ(tags.at(second).peer, "ps:0");
}

TEST(Tags, ALongNameIsCut) {
  Tags tags;
  const uint32_t tag = tags.Find(Kind::kCall, "", "", std::string(10'000, 'a'));
  EXPECT_EQ(tags.at(tag).name.size(), Tags::kNameBytesMax);
}

TEST(Tags, AFullTableCountsTheRestTogether) {
  Tags tags;
  for (uint32_t i = 0; i < Tags::kTagsMax; ++i) tags.Find(Kind::kReceive, "worker:0", "ps:0", std::to_string(i));
  EXPECT_EQ(tags.size(), Tags::kTagsMax + 1);  // the last one is the first of the others
  const uint32_t others = tags.Find(Kind::kReceive, "worker:0", "ps:0", "one more");
  EXPECT_EQ(tags.at(others).name, "(others)");
  EXPECT_EQ(tags.Find(Kind::kReceive, "worker:0", "ps:0", "and another"), others);
  EXPECT_NE(tags.Find(Kind::kReceive, "worker:0", "ps:1", "one more"), others);
  // As many peers as nobody has: all that is left is tag 0.
  for (uint32_t i = 0; i < 2 * Tags::kOthersMax; ++i)
    tags.Find(Kind::kReceive, "worker:0", "ps:" + std::to_string(i), "one more");
  EXPECT_EQ(tags.size(), Tags::kTagsMax + Tags::kOthersMax);
  EXPECT_EQ(tags.Find(Kind::kReceive, "worker:0", "ps:99999", "one more"), 0u);
  EXPECT_LE(tags.lines().size(), Tags::kLinesMax);
}

TEST(Tags, EachKindHasAName) {
  for (int kind = 0; kind < kKinds; ++kind) EXPECT_STRNE(KindName(static_cast<Kind>(kind)), "unknown");
  EXPECT_STREQ(KindName(static_cast<Kind>(kKinds)), "unknown");
}

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
