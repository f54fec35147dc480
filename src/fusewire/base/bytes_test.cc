// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/base/bytes.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace fusewire {
namespace {

TEST(Bytes, ViewsOfViewsShowTheSameMemory) {
  uint8_t memory[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  const Bytes all(memory, sizeof(memory));
  EXPECT_EQ(all.Sub(2, 3).data, memory + 2);
  EXPECT_EQ(all.Sub(2, 3).size, 3u);
  EXPECT_EQ(all.From(7).data, memory + 7);
  EXPECT_EQ(all.From(7).end(), all.end());
  EXPECT_TRUE(all.From(10).empty());

  const ConstBytes read_only = all;
  EXPECT_EQ(read_only.data, memory);
  EXPECT_EQ(read_only.Sub(2, 3).From(1).ToString(), std::string("\x03\x04"));
  EXPECT_EQ(ConstBytes().ToString(), "");
  EXPECT_EQ(ConstBytes(std::string("ab")).size, 2u);
}

TEST(CopyBytes, CopiesAndCountsSmallPiecesByTheByte) {
  const CopyCounts before = ReadCopyCounts();
  const std::string from = "payload";
  std::string to(10, '.');
  CopyBytes(Bytes(to.data(), to.size()), from);
  EXPECT_EQ(to, "payload...");
  CopyBytes(Bytes(), ConstBytes());
  const CopyCounts after = ReadCopyCounts();
  EXPECT_EQ(after.small_bytes - before.small_bytes, from.size());
  EXPECT_EQ(after.large_copies, before.large_copies);
}

TEST(CopyBytes, CountsEachLargePiece) {
  std::vector<uint8_t> from(kCopyBytesMax, 7);
  std::vector<uint8_t> to(kCopyBytesMax);
  const CopyCounts before = ReadCopyCounts();
  CopyBytes(Bytes(to.data(), to.size()), ConstBytes(from.data(), from.size() - 1));
  EXPECT_EQ(ReadCopyCounts().large_copies, before.large_copies);
  CopyBytes(Bytes(to.data(), to.size()), ConstBytes(from.data(), from.size()));
  EXPECT_EQ(ReadCopyCounts().large_copies, before.large_copies + 1);
  EXPECT_EQ(to, from);
}

TEST(CopyBytes, WhatAThreadCopiedStaysCountedWhenItEnds) {
  constexpr int kThreads = 4;
  constexpr int kCopies = 1000;
  const CopyCounts before = ReadCopyCounts();
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([] {
      uint64_t from = 1;
      uint64_t to = 0;
      for (int copy = 0; copy < kCopies; ++copy) CopyBytes(Bytes(&to, sizeof(to)), ConstBytes(&from, sizeof(from)));
    });
  }
  ReadCopyCounts();  // while they count
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ReadCopyCounts().small_bytes - before.small_bytes, kThreads * kCopies * sizeof(uint64_t));
}

TEST(CopyBytesDeathTest, ATargetThatIsTooSmallIsOurBug) {
  uint8_t from[2] = {};
  uint8_t to[1] = {};
  EXPECT_DEATH(CopyBytes(Bytes(to, 1), ConstBytes(from, 2)), "to.size >= from.size");
}

}  // namespace
}  // namespace fusewire
