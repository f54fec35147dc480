// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/base/fifo.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <deque>
#include <memory>

#include "fusewire/base/random.h"

namespace fusewire {
namespace {

TEST(Fifo, DoesWhatADequeDoes) {
  const uint64_t seed = SystemRandom64();
  SCOPED_TRACE(seed);
  Random random(seed);
  Fifo<std::unique_ptr<int>> fifo;
  std::deque<int> model;
  for (int step = 0; step < 20000; ++step) {
    const bool grows = step / 1000 % 2 == 0;
    if (model.empty() || random.Below(5) < (grows ? 3U : 2U)) {
      fifo.Push(std::make_unique<int>(step));
      model.push_back(step);
    } else if (random.Below(20) > 0) {
      ASSERT_EQ(*fifo.Pop(), model.front());
      model.pop_front();
    } else {
      const size_t index = random.Below(model.size());
      ASSERT_EQ(*fifo.Take(fifo.begin() + index), model[index]);
      model.erase(model.begin() + static_cast<std::ptrdiff_t>(index));
    }
    ASSERT_EQ(fifo.size(), model.size());
    ASSERT_EQ(fifo.empty(), model.empty());
    if (model.empty()) {
      fifo.Trim();
      continue;
    }
    ASSERT_EQ(*fifo.front(), model.front());
    ASSERT_EQ(*fifo.back(), model.back());
  }
  size_t index = 0;
  for (const auto& member : fifo) ASSERT_EQ(*member, model[index++]);
}

TEST(Fifo, WhatHasGoneTakesNoMemory) {
  Fifo<std::unique_ptr<int>> fifo;
  fifo.Push(std::make_unique<int>(0));
  const size_t before = mallinfo2().uordblks;  // 0 under a sanitizer: its allocator does not report it
  for (int i = 0; i < 10000; ++i) {
    fifo.Push(std::make_unique<int>(i));
    fifo.Pop();
  }
  EXPECT_LE(mallinfo2().uordblks, before + 4096);
}

}  // namespace
}  // namespace fusewire
