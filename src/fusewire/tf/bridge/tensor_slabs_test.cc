// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/bridge/tensor_slabs.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace fusewire::tf {
namespace {

constexpr size_t kPieceBytes = 4096;  // the bytes of a piece in most tests, and the number of its size
constexpr size_t kPieceNumber = 24;
constexpr size_t kPiecesPerSlab = TensorSlabs::kSlabBytes / kPieceBytes - 1;

std::vector<void*> TakePieces(TensorSlabs* slabs, size_t count) {
  std::vector<void*> pieces(count);
  for (void*& piece : pieces) {
    piece = slabs->Take(kPieceNumber, kPieceBytes);
    std::memset(piece, 1, kPieceBytes);
  }
  return pieces;
}

void ReturnPieces(TensorSlabs* slabs, const std::vector<void*>& pieces) {
  for (void* piece : pieces) slabs->Return(piece);
}

// As often as it takes.
void TrimSlabs(TensorSlabs* slabs) {
  for (int i = 0; i < 1000; ++i) slabs->Trim();
}

bool HasMemory(void* at) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  unsigned char resident = 0;
  EXPECT_EQ(mincore(reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(at) / page * page), 1, &resident), 0);
  return (resident & 1) != 0;
}

TEST(TensorSlabs, PiecesAreAlignedAndApart) {
  TensorSlabs slabs;
  std::mt19937 random(1);
  std::vector<std::pair<unsigned char*, size_t>> taken;
  const std::vector<std::pair<size_t, size_t>> sizes = {
      {0, 64}, {3, 256}, {24, 4096}, {40, TensorSlabs::kPieceBytesMax}};
  for (int i = 0; i < 4000; ++i) {
    const auto [number, bytes] = sizes[random() % sizes.size()];
    auto* const piece = static_cast<unsigned char*>(slabs.Take(number, bytes));
    ASSERT_NE(piece, nullptr);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(piece) % 64, 0u);
    ASSERT_TRUE(slabs.Owns(piece));
    ASSERT_TRUE(slabs.Owns(piece + bytes - 1));
    ASSERT_EQ(slabs.NumberOf(piece), number);
    std::memset(piece, i % 251, bytes);
    taken.emplace_back(piece, bytes);
    if (random() % 3 == 0) continue;
    const size_t one = random() % taken.size();
    const auto [back, length] = taken[one];
    ASSERT_TRUE(std::all_of(back, back + length, [first = back[0]](unsigned char byte) { return byte == first; }));
    slabs.Return(back);
    taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(one));
  }
  int other = 0;
  EXPECT_FALSE(slabs.Owns(&other));
}

TEST(TensorSlabs, AWaveGivesItsMemoryBackAfterAWhile) {
  ManualClock clock;
  TensorSlabs slabs(&clock);
  const std::vector<void*> wave = TakePieces(&slabs, 100 * kPiecesPerSlab);
  EXPECT_EQ(slabs.bytes(), 100 * TensorSlabs::kSlabBytes);
  ReturnPieces(&slabs, wave);
  clock.Advance(TensorSlabs::kKeptNs - 1);
  TrimSlabs(&slabs);
  EXPECT_EQ(slabs.bytes(), 100 * TensorSlabs::kSlabBytes) << "the next wave finds it";
  EXPECT_TRUE(HasMemory(wave.front()));
  clock.Advance(1);
  TrimSlabs(&slabs);
  EXPECT_EQ(slabs.bytes(), 0u);
  EXPECT_TRUE(std::none_of(wave.begin(), wave.end(), HasMemory));

  const std::vector<void*> next = TakePieces(&slabs, kPiecesPerSlab + 1);
  EXPECT_EQ(slabs.bytes(), 2 * TensorSlabs::kSlabBytes);
  ReturnPieces(&slabs, next);
}

TEST(TensorSlabs, OneTrimGivesLittleBack) {
  ManualClock clock;
  TensorSlabs slabs(&clock);
  ReturnPieces(&slabs, TakePieces(&slabs, 100 * kPiecesPerSlab));
  clock.Advance(TensorSlabs::kKeptNs);
  slabs.Trim();
  EXPECT_LT(slabs.bytes(), 100 * TensorSlabs::kSlabBytes);
  EXPECT_GT(slabs.bytes(), 90 * TensorSlabs::kSlabBytes);
}

TEST(TensorSlabs, APieceThatStaysKeepsItsOwnSlabOnly) {
  ManualClock clock;
  TensorSlabs slabs(&clock);
  std::vector<void*> wave = TakePieces(&slabs, 50 * kPiecesPerSlab);
  auto* const stays = static_cast<unsigned char*>(wave[20 * kPiecesPerSlab + 7]);
  wave.erase(wave.begin() + 20 * kPiecesPerSlab + 7);
  ReturnPieces(&slabs, wave);
  clock.Advance(TensorSlabs::kKeptNs);
  TrimSlabs(&slabs);
  EXPECT_EQ(slabs.bytes(), TensorSlabs::kSlabBytes);
  EXPECT_TRUE(std::all_of(stays, stays + kPieceBytes, [](unsigned char byte) { return byte == 1; }));
  slabs.Return(stays);
}

TEST(TensorSlabs, WhatIsInUseComesAgainAndAgainFromTheSameSlabs) {
  ManualClock clock;
  TensorSlabs slabs(&clock);
  const std::vector<void*> stay = TakePieces(&slabs, 10);
  for (int round = 0; round < 1000; ++round) {
    ReturnPieces(&slabs, TakePieces(&slabs, 3 * kPiecesPerSlab));
    clock.Advance(kMillisecondNs);
    slabs.Trim();
    ASSERT_LE(slabs.bytes(), 4 * TensorSlabs::kSlabBytes);
  }
  ReturnPieces(&slabs, stay);
}

TEST(TensorSlabs, AnEmptySlabIsCutInAnotherSize) {
  TensorSlabs slabs;
  ReturnPieces(&slabs, TakePieces(&slabs, kPiecesPerSlab));
  void* const other = slabs.Take(3, 256);
  EXPECT_EQ(slabs.NumberOf(other), 3u);
  EXPECT_EQ(slabs.bytes(), TensorSlabs::kSlabBytes);
  slabs.Return(other);
}

TEST(TensorSlabs, WithoutRoomThereIsNone) {
  TensorSlabs slabs(Clock::Real(), 2);
  std::vector<void*> all = TakePieces(&slabs, 2 * kPiecesPerSlab);
  EXPECT_EQ(slabs.Take(kPieceNumber, kPieceBytes), nullptr);
  EXPECT_EQ(slabs.Take(0, 64), nullptr);
  void* const last = all.back();
  slabs.Return(last);
  EXPECT_EQ(slabs.Take(kPieceNumber, kPieceBytes), last);
  ReturnPieces(&slabs, all);

  TensorSlabs none(Clock::Real(), 0);
  EXPECT_EQ(none.Take(0, 64), nullptr);
  EXPECT_FALSE(none.Owns(last));
  EXPECT_EQ(none.bytes(), 0u);
}

TEST(TensorSlabs, PiecesMayComeBackFromOtherThreads) {
  TensorSlabs slabs;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&slabs] {
      for (int round = 0; round < 50; ++round) {
        std::vector<void*> pieces = TakePieces(&slabs, 100);
        std::thread([&slabs, pieces = std::move(pieces)] {
          ReturnPieces(&slabs, pieces);
          slabs.Trim();
        }).join();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace fusewire::tf
