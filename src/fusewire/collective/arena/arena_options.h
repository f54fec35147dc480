// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The options of an arena, and a rank's seat in it.
// Home: any thread, plain values. Fails: CreateArenaMemory, if options are out of bounds or memory is
// short.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fusewire/base/status.h"

namespace fusewire::collective {

// The most ranks that can share an arena.
constexpr int kArenaRanksMax = 48;

// Whether ranks read large arrays in each other's memory: where that costs less, or always or never, for tests.
enum class LoanRule : uint8_t { kMeasured, kAlways, kNever };

struct ArenaOptions {
  // The size of a share. A rank has three of them: one is written, one reduced, one read.
  size_t share_bytes = 256 * 1024;
  // Up to this size, and no more than a share, every rank reduces everything by itself; above, each reduces a slice for
  // all.
  size_t one_shot_bytes = 16 * 1024;
  // Before a rank sleeps, it spins for spin_ns if each rank may have its own processor, then it yields in a loop for
  // yield_ns.
  int64_t spin_ns = 5 * 1000;
  int64_t yield_ns = 200 * 1000;
  // Processors for these ranks; 0: those that this process may use.
  int cpus = 0;
  LoanRule loans = LoanRule::kMeasured;
};

// Bytes of the memory that `ranks` share.
size_t ArenaBytes(int ranks, const ArenaOptions& options);

// A memfd for `ranks`, sealed against shrinking and growing. The caller owns it and hands it to all ranks.
Result<int> CreateArenaMemory(int ranks, const ArenaOptions& options);

class ArenaWaits;

// A rank's seat. `memory` is borrowed during Join.
struct ArenaSeat {
  int memory = -1;
  int rank = 0;
  int ranks = 1;
  // lives[r] is a descriptor that ends when rank r does: a socket or a pipe whose other end r alone holds, or a pidfd.
  // It is polled, never read, and closed with the Arena. -1 for this rank itself.
  std::vector<int> lives;
  // The ranks' processes, 0 where it is not known. Empty: this rank reads no other's memory, so none reads it.
  std::vector<pid_t> processes;
  // Names of the ranks, for errors; may be empty.
  std::vector<std::string> names;
  // Observes its long waits; may be null.
  ArenaWaits* waits = nullptr;
};

// How many meetings were complete, how often this rank slept, and how many bytes it copied and reduced.
struct ArenaCounts {
  uint64_t meetings = 0;
  uint64_t differences = 0;  // meetings at which the calls differed: they fail, and no array was changed
  uint64_t sleeps = 0;
  uint64_t copied_in_bytes = 0;
  uint64_t copied_out_bytes = 0;
  uint64_t reduced_bytes = 0;
  uint64_t lent_bytes = 0;  // that this rank has read in other ranks' memory
};

}  // namespace fusewire::collective
