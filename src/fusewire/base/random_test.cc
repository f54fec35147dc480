// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/base/random.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace fusewire {
namespace {

TEST(Random, IsSplitMix64) {
  Random random(1234567);
  // The numbers that the algorithm's authors publish for this seed.
  for (uint64_t expected : {6457827717110365317u, 3203168211198807973u, 9817491932198370423u, 4593380528125082431u,
                            16408922859458223821u}) {
    EXPECT_EQ(random.Next(), expected);
  }
}

TEST(Random, StaysInItsBounds) {
  Random random(5);
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_LT(random.Below(7), 7u);
    seen.insert(random.Between(3, 5));
    const double fraction = random.Fraction();
    EXPECT_GE(fraction, 0.0);
    EXPECT_LT(fraction, 1.0);
    EXPECT_FALSE(random.Chance(0.0));
    EXPECT_TRUE(random.Chance(1.0));
    EXPECT_EQ(random.Between(9, 9), 9u);
  }
  EXPECT_EQ(seen, (std::set<uint64_t>{3, 4, 5}));
}

TEST(Random, TheWholeRangeIsARange) {
  Random random(6);
  uint64_t all_bits = 0;
  for (int i = 0; i < 100; ++i) all_bits |= random.Between(0, UINT64_MAX);
  EXPECT_EQ(all_bits, UINT64_MAX);
}

TEST(SystemRandom, FillsEveryByteAndDoesNotRepeat) {
  std::vector<uint8_t> ever_set(100);
  for (int i = 0; i < 20; ++i) {
    std::vector<uint8_t> bytes(ever_set.size());
    SystemRandom(Bytes(bytes.data(), bytes.size()));
    for (size_t at = 0; at < bytes.size(); ++at) ever_set[at] |= bytes[at];
  }
  for (uint8_t bits : ever_set) EXPECT_NE(bits, 0);
  EXPECT_NE(SystemRandom64(), SystemRandom64());
  SystemRandom(Bytes());
}

}  // namespace
}  // namespace fusewire
