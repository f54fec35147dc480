// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/base/slots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "fusewire/base/random.h"

namespace fusewire {
namespace {

constexpr uint64_t kOneGeneration = uint64_t{1} << 32;

TEST(Slots, FindsWhatItNamedUntilItIsReleased) {
  Slots<int> slots(2);
  int one = 1, two = 2, three = 3;
  uint64_t first = slots.Take(&one), second = slots.Take(&two);
  EXPECT_NE(first, second);
  EXPECT_EQ(slots.Take(&three), 0u);
  EXPECT_EQ(slots.Find(first), &one);
  EXPECT_EQ(slots.Find(second), &two);
  EXPECT_EQ(slots.in_use(), 2u);
  slots.Release(first);
  EXPECT_EQ(slots.Find(first), nullptr);
  uint64_t third = slots.Take(&three);
  EXPECT_NE(third, first);
  EXPECT_EQ(static_cast<uint32_t>(third), static_cast<uint32_t>(first));
  EXPECT_EQ(slots.Find(first), nullptr);
  EXPECT_EQ(slots.Find(third), &three);
  EXPECT_EQ(slots.Names(), (std::vector<uint64_t>{third, second}));
}

TEST(Slots, TellsANameThatHasPassedFromALie) {
  Slots<int> slots(4);
  int one = 1;
  uint64_t name = slots.Take(&one);
  EXPECT_FALSE(slots.HasPassed(name));
  slots.Release(name);
  EXPECT_TRUE(slots.HasPassed(name));
  EXPECT_FALSE(slots.HasPassed(name + kOneGeneration));  // not given out yet
  EXPECT_FALSE(slots.HasPassed(name + 2 * kOneGeneration));
  EXPECT_FALSE(slots.HasPassed(name + 1));  // the next slot
  EXPECT_FALSE(slots.HasPassed(kOneGeneration | UINT32_MAX));
  EXPECT_EQ(slots.Find(name + kOneGeneration), nullptr);
  EXPECT_EQ(Slots<int>(1).Find(kOneGeneration), nullptr);
}

TEST(Slots, AgreesWithAModel) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Slots<int> slots(50);
    std::vector<int> members(50);
    std::map<uint64_t, int*> alive;
    std::set<uint64_t> ended, given;
    for (int step = 0; step < 5000; ++step) {
      if (alive.size() < 50 && random.Chance(0.52)) {
        int* member = &members[random.Below(50)];
        uint64_t name = slots.Take(member);
        ASSERT_NE(name, 0u);
        ASSERT_TRUE(given.insert(name).second) << "a name was given out twice";
        alive[name] = member;
      } else if (!alive.empty()) {
        auto it = std::next(alive.begin(), static_cast<std::ptrdiff_t>(random.Below(alive.size())));
        slots.Release(it->first);
        ended.insert(it->first);
        alive.erase(it);
      }
      ASSERT_EQ(slots.in_use(), alive.size());
    }
    std::vector<uint64_t> names = slots.Names(), expected;
    for (const auto& [name, member] : alive) {
      ASSERT_EQ(slots.Find(name), member);
      expected.push_back(name);
    }
    for (uint64_t name : ended) {
      ASSERT_EQ(slots.Find(name), nullptr);
      ASSERT_TRUE(slots.HasPassed(name));
    }
    std::sort(names.begin(), names.end());
    EXPECT_EQ(names, expected);
  }
}

// Uses its only slot until its generation has wrapped.
template <class Slots>
void Wrap(Slots slots) {
  int member = 0;
  std::vector<uint64_t> past;
  for (int use = 0; use < 8; ++use) {
    uint64_t name = slots.Take(&member);
    EXPECT_NE(name >> 32, 0u) << "0 stands for no name";
    EXPECT_EQ(slots.Find(name), &member);
    for (uint64_t old : past) {
      EXPECT_EQ(slots.Find(old), nullptr);
      EXPECT_TRUE(slots.HasPassed(old));
    }
    slots.Release(name);
    past.push_back(name);
  }
  EXPECT_GT(past.front(), past.back());
}

TEST(Slots, GenerationsWrapWithoutConfusion) {
  Wrap(Slots<int>(1, UINT32_MAX - 2));
  Wrap(Slots<int, 31>(1, (UINT32_MAX >> 1) - 2));
}

TEST(Slots, NamesOf31BitsOfGenerationsNeverUseBit63) {
  for (uint32_t start : {0u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
    Slots<int, 31> slots(1, start);
    int one = 1;
    for (int i = 0; i < 3; ++i) {
      uint64_t name = slots.Take(&one);
      EXPECT_NE(name, 0u);
      EXPECT_EQ(name >> 63, 0u);
      EXPECT_EQ(slots.Find(name | uint64_t{1} << 63), nullptr);
      EXPECT_FALSE(slots.HasPassed(name | uint64_t{1} << 63));
      slots.Release(name);
    }
  }
}

}  // namespace
}  // namespace fusewire
