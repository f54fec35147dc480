// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Ranks that are children of one process, for programs without a launcher.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace fusewire::bench {

inline constexpr int kRanksMax = 64;

// Shared memory through which ranks exchange data before they are connected.
class Board {
 public:
  // Created before the ranks.
  static Board* Make();
  // Waits until every rank has posted its number, which is not 0.
  void Post(int rank, uint32_t number) { numbers_[rank].store(number); }
  uint32_t Await(int rank) const;
  // Waits for all: no rank leaves while another is in its last operation.
  void Leave(int ranks);

 private:
  std::atomic<uint32_t> numbers_[kRanksMax];
  std::atomic<int> left_;
};

// Starts a process per rank; each calls `life` and ends. Returns this process's exit status: 0 if all succeeded. The
// first that fails ends them all, as does the end of this process.
int ForkRanks(int ranks, const std::function<void(int rank)>& life);

// Moves this rank into its host's network, if `hosts` names one for each rank: FILE@ADDRESS,FILE@ADDRESS. Returns the
// address of each rank; 127.0.0.1 for all without hosts.
std::vector<std::string> EnterHost(const std::string& hosts, int rank, int ranks);

// Binds each rank to a processor, as MPI's launchers do. False: there are too few processors.
bool BindRank(int rank, int ranks);

}  // namespace fusewire::bench
