// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Ranks that are children of one process, for programs that bring no launcher of their own.
#ifndef FUSEWIRE_BENCH_COLLECTIVE_RANKS_H_
#define FUSEWIRE_BENCH_COLLECTIVE_RANKS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

namespace fusewire::bench {

inline constexpr int kRanksMax = 64;

// What the ranks know of each other before they are connected, in memory that they share.
class Board {
 public:
  // Made before the ranks are.
  static Board* Make();
  // Waits until every rank has posted its number, which is not 0.
  void Post(int rank, uint32_t number) { numbers_[rank].store(number); }
  uint32_t Await(int rank) const;
  // Waits for all: nobody leaves while another is in its last operation.
  void Leave(int ranks);

 private:
  std::atomic<uint32_t> numbers_[kRanksMax];
  std::atomic<int> left_;
};

// A process for each rank, each calls `life` and ends. Returns this process's exit status: 0 if all ended well. The
// first that fails ends them all, and so does the end of this process.
int ForkRanks(int ranks, const std::function<void(int rank)>& life);

// As MPI's launchers bind their ranks: where each has a processor, it keeps to it. False: there are too few.
bool BindRank(int rank, int ranks);

}  // namespace fusewire::bench

#endif  // FUSEWIRE_BENCH_COLLECTIVE_RANKS_H_
