// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/p2p/slots.h"

#include <gtest/gtest.h>

namespace fusewire {
namespace p2p {
namespace {

TEST(Slots, FindsWhatItNamedUntilItIsReleased) {
  Slots<int> slots(2);
  int one = 1, two = 2, three = 3;
  uint64_t first = slots.Take(&one), second = slots.Take(&two);
  EXPECT_EQ(slots.Take(&three), 0u);
  EXPECT_EQ(slots.Find(first), &one);
  EXPECT_EQ(slots.Find(second), &two);
  slots.Release(first);
  EXPECT_EQ(slots.Find(first), nullptr);
  uint64_t third = slots.Take(&three);
  EXPECT_NE(third, first);
  EXPECT_EQ(slots.Find(first), nullptr);
  EXPECT_EQ(slots.Find(third), &three);
  EXPECT_EQ(slots.Names(), (std::vector<uint64_t>{third, second}));
}

TEST(Slots, NamesNeverUseBit63AndAreNever0) {
  for (uint32_t start : {0u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
    Slots<int> slots(1, start);
    int one = 1;
    for (int i = 0; i < 3; ++i) {
      uint64_t name = slots.Take(&one);
      EXPECT_NE(name, 0u);
      EXPECT_EQ(name >> 63, 0u);
      slots.Release(name);
    }
  }
  EXPECT_EQ(Slots<int>(1).Find(uint64_t{1} << 32), nullptr);
}

}  // namespace
}  // namespace p2p
}  // namespace fusewire
