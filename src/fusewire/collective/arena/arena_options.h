// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// How an arena is made, and what a rank brings along.
// Home: any thread, plain values. Owns: nothing. Fails: CreateArenaMemory, where options are out of bounds or there is
// no memory.
#ifndef FUSEWIRE_COLLECTIVE_ARENA_ARENA_OPTIONS_H_
#define FUSEWIRE_COLLECTIVE_ARENA_ARENA_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fusewire/base/status.h"

namespace fusewire {
namespace collective {

// Ranks that share an arena.
constexpr int kArenaRanksMax = 48;

struct ArenaOptions {
  // What a rank lays out at a time. Three of them are in turn: written, reduced, read.
  size_t share_bytes = 256 * 1024;
  // Up to this size every rank reduces everything by itself; above, each reduces a slice for all. 0: chosen by ranks.
  size_t one_shot_bytes = 0;
  // How a waiter spends its time before it sleeps: it spins, if each rank may have a processor of its own; then it
  // gives the processor to whoever wants it, again and again.
  int64_t spin_ns = 5 * 1000;
  int64_t yield_ns = 200 * 1000;
  // Processors for these ranks; 0: those that this process may use.
  int cpus = 0;
};

// Bytes of the memory that `ranks` share.
size_t ArenaBytes(int ranks, const ArenaOptions& options);

// A memfd for `ranks`, sealed against shrinking and growing; the caller's, which hands it to all ranks.
Result<int> CreateArenaMemory(int ranks, const ArenaOptions& options);

// What a rank brings along. `memory` is borrowed for the call of Join.
struct ArenaSeat {
  int memory = -1;
  int rank = 0;
  int ranks = 1;
  // lives[r] is a descriptor that ends when rank r does: a socket or a pipe whose other end r alone holds, or a pidfd.
  // It is asked, never read, and closed with the Arena. -1 for oneself.
  std::vector<int> lives;
  // What errors call the ranks besides their numbers; empty: nothing.
  std::vector<std::string> names;
};

// How often all have met, how often this rank slept, and how many bytes it copied into shares and out of them.
struct ArenaCounts {
  uint64_t meetings = 0;
  uint64_t sleeps = 0;
  uint64_t copied_in_bytes = 0;
  uint64_t copied_out_bytes = 0;
  uint64_t reduced_bytes = 0;
};

}  // namespace collective
}  // namespace fusewire

#endif  // FUSEWIRE_COLLECTIVE_ARENA_ARENA_OPTIONS_H_
