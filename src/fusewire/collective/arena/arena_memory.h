// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The mapping of the memory that ranks share; arena_layout.h draws its layout.
// Home: its rank's thread; each rank writes its own parts. Owns: the mapping. Fails: Map, if the memory is not sealed,
// or was made with other options. No offset or length is ever read from the memory: a peer may spoil results, but can't
// make this rank write elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/base/status.h"
#include "fusewire/collective/arena/arena_layout.h"
#include "fusewire/collective/arena/arena_options.h"

namespace fusewire::collective {

// Descriptors that end when another rank does. They are polled, never read.
// Home: its rank's thread. Owns: the descriptors. Fails: Check, if a rank has none.
class LifeLines {
 public:
  // One for each rank, -1 for this one. They are closed in any case.
  explicit LifeLines(std::vector<int> lives);
  ~LifeLines();
  LifeLines(const LifeLines&) = delete;
  LifeLines& operator=(const LifeLines&) = delete;

  // Ok, or an error that names a rank without one.
  Status Check(int own, int ranks) const;
  bool HasEnded(int rank) const;
  // Returns once that rank has ended, or at the limit.
  void AwaitEnd(int rank, int64_t patience_ns) const;

 private:
  bool Look(int rank, int timeout_ms) const;

  const std::vector<int> lives_;
  std::vector<int16_t> events_;  // for each, the poll events that mean its end
};

class ArenaMemory {
 public:
  ArenaMemory() = default;
  ~ArenaMemory();
  ArenaMemory(const ArenaMemory&) = delete;
  ArenaMemory& operator=(const ArenaMemory&) = delete;

  Status Map(int fd, int ranks, const ArenaOptions& options);

  bool mapped() const { return memory_ != nullptr; }
  ArenaHeader& header() const {
    FUSEWIRE_DCHECK(header_ != nullptr);
    return *header_;
  }
  // The post, table and share of a rank for meeting `stage`.
  ArenaPost& PostOf(int rank, uint64_t stage) const {
    FUSEWIRE_DCHECK(static_cast<size_t>(rank) < ranks_);
    return posts_[rank].of[stage % kTurns];
  }
  ArenaTable& TableOf(int rank, uint64_t stage) const {
    FUSEWIRE_DCHECK(static_cast<size_t>(rank) < ranks_);
    return tables_[static_cast<size_t>(rank) * kTurns + stage % kTurns];
  }
  uint8_t* ShareOf(int rank, uint64_t stage) const {
    FUSEWIRE_DCHECK(static_cast<size_t>(rank) < ranks_);
    return shares_ + (stage % kTurns * ranks_ + static_cast<size_t>(rank)) * share_bytes_;
  }
  size_t share_bytes() const { return share_bytes_; }

 private:
  uint8_t* memory_ = nullptr;
  size_t bytes_ = 0;
  size_t ranks_ = 0;
  size_t share_bytes_ = 0;
  ArenaHeader* header_ = nullptr;
  ArenaPosts* posts_ = nullptr;
  ArenaTable* tables_ = nullptr;
  uint8_t* shares_ = nullptr;
};

}  // namespace fusewire::collective
