// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Arrays that ranks lend each other: which way calls take, and what can go wrong with another's memory.
#include "fusewire/collective/arena/loans.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <numeric>
#include <thread>
#include <vector>

#include "fusewire/collective/arena/crew_test.h"

namespace fusewire::collective {
namespace {

constexpr size_t kCount = 40000;  // of floats, for each rank

ArenaOptions Lending(LoanRule rule) {
  ArenaOptions options;
  options.loans = rule;
  return options;
}

// An all-gather whose result is checked; how many bytes this rank has read in others' memory for it.
uint64_t GatherChecked(Arena& arena, size_t count = kCount) {
  const uint64_t before = arena.counts().lent_bytes;
  std::vector<float> mine(count, static_cast<float>(arena.rank() + 1));
  std::vector<float> all(count * static_cast<size_t>(arena.ranks()));
  const std::vector<size_t> bytes(static_cast<size_t>(arena.ranks()), count * sizeof(float));
  const Status status = AllGather(arena, bytes, Whole(mine), Whole(all));
  EXPECT_TRUE(status.ok()) << status.ToString();
  for (size_t i = 0; i < all.size(); ++i) {
    const size_t sender = i / count;
    if (all[i] == static_cast<float>(sender + 1)) continue;
    ADD_FAILURE() << "element " << i << " is " << all[i];
    break;
  }
  return arena.counts().lent_bytes - before;
}

TEST(Loans, AllRanksTakeTheSameWayAndBothAreTried) {
  std::atomic<int> lent{0}, calls{0};
  Crew::RunThreads(3, Lending(LoanRule::kMeasured), [&](Arena& arena) {
    for (int call = 0; call < 200; ++call) {
      const bool is_lent = GatherChecked(arena) > 0;
      if (is_lent) ++lent;
      ++calls;
      // Were one of them on another way, the next call would be another one's.
      ASSERT_TRUE(Barrier(arena).ok());
    }
  });
  EXPECT_EQ(calls.load(), 600);
  EXPECT_GE(lent.load(), 8 * 3);  // each way is tried with eight calls
  EXPECT_LE(lent.load(), 600 - 8 * 3);
  EXPECT_EQ(lent.load() % 3, 0);
}

TEST(Loans, SmallArraysAreNotLent) {
  Crew::RunThreads(2, Lending(LoanRule::kAlways), [](Arena& arena) {
    EXPECT_EQ(GatherChecked(arena, kLoanBytesMin / sizeof(float) - 1), 0U);
    EXPECT_EQ(GatherChecked(arena, kLoanBytesMin / sizeof(float)), kLoanBytesMin);
  });
}

TEST(Loans, ArraysInSeveralPiecesGoThroughShares) {
  Crew::RunThreads(2, Lending(LoanRule::kAlways), [](Arena& arena) {
    std::vector<float> mine(kCount), all(2 * kCount);
    std::iota(mine.begin(), mine.end(), static_cast<float>(arena.rank()));
    const size_t half = kCount / 2 * sizeof(float);
    const Piece halves[] = {{mine.data(), half}, {mine.data() + kCount / 2, half}};
    const Pieces from = arena.rank() == 1 ? Pieces(halves, 2) : Whole(mine);
    ASSERT_TRUE(AllGather(arena, {2 * half, 2 * half}, from, Whole(all)).ok());
    for (size_t i = 0; i < all.size(); ++i) {
      const size_t sender = i / kCount, want = i % kCount + sender;
      ASSERT_EQ(all[i], static_cast<float>(want));
    }
    EXPECT_EQ(arena.counts().lent_bytes, 0U);
    EXPECT_EQ(GatherChecked(arena), kCount * sizeof(float)) << "one call in pieces is not the end of it";
  });
}

TEST(Loans, ARankThatKnowsNoProcessReadsNoMemory) {
  Crew crew(2, Lending(LoanRule::kAlways));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    ArenaSeat seat = crew.SeatOf(rank);
    if (rank == 1) seat.processes.clear();
    threads.emplace_back([seat] {
      const auto arena = std::move(Arena::Join(seat, Lending(LoanRule::kAlways))).value();
      EXPECT_EQ(GatherChecked(*arena), 0U);
      EXPECT_EQ(GatherChecked(*arena), 0U);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Memory that a rank has freed in the middle of a call, which it must not do: the one that reads it gets an error,
// and neither waits for ever. The address stays reserved, so that another thread's memory can't come to lie there.
TEST(Loans, UnmappedMemoryIsAnErrorThatNamesTheRank) {
  const size_t bytes = size_t{64} << 10;
  void* gone = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(gone, MAP_FAILED);
  Crew::RunThreads(2, Lending(LoanRule::kAlways), [&](Arena& arena) {
    std::vector<float> from(bytes / sizeof(float)), to(bytes / sizeof(float));
    const std::vector<size_t> others = {arena.rank() == 0 ? 0 : bytes, arena.rank() == 0 ? bytes : 0};
    if (arena.rank() == 1) {
      const Status status = AllToAll(arena, others, others, Pieces(gone, bytes), Whole(to));
      EXPECT_EQ(status.code(), Code::kCancelled) << status.ToString();
      return;
    }
    const Status status = AllToAll(arena, others, others, Whole(from), Whole(to));
    EXPECT_EQ(status.code(), Code::kUnavailable);
    EXPECT_EQ(status.peer(), "rank 1");
    EXPECT_NE(status.cause().find("can't be read any more"), std::string::npos) << status.ToString();
    EXPECT_EQ(Barrier(arena).code(), Code::kUnavailable) << "a broken arena says so at once";
    arena.Close();  // as a group does
  });
  munmap(gone, bytes);
}

// A mismatch is found before anybody reads.
TEST(Loans, ADifferentCallIsNamedAndTheNextOneSucceeds) {
  Crew::RunThreads(3, Lending(LoanRule::kAlways), [](Arena& arena) {
    GatherChecked(arena);
    std::vector<float> array(kCount, 1);
    const Status status = arena.rank() == 2 ? Barrier(arena) : AllReduce(arena, {}, Whole(array), Whole(array));
    EXPECT_EQ(status.cause(), "rank 0 wants all-reduce sum of 40000 f32, rank 2 wants barrier");
    EXPECT_EQ(array[0], 1);
    ASSERT_TRUE(AllReduce(arena, {}, Whole(array), Whole(array)).ok());
    EXPECT_EQ(array[kCount - 1], 3);
    EXPECT_GT(GatherChecked(arena), 0U);
  });
}

// The words of an array that overlaps what it is exchanged for: whoever reads it meanwhile would read results.
TEST(Loans, AnExchangeInPlaceIsNotLent) {
  Crew::RunThreads(2, Lending(LoanRule::kAlways), [](Arena& arena) {
    std::vector<float> array(2 * kCount, static_cast<float>(arena.rank()));
    const std::vector<size_t> bytes(2, kCount * sizeof(float));
    ASSERT_TRUE(AllToAll(arena, bytes, bytes, Whole(array), Whole(array)).ok());
    EXPECT_EQ(arena.counts().lent_bytes, 0U);
  });
}

}  // namespace
}  // namespace fusewire::collective
