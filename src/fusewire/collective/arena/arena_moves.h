// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The collectives of an arena that move bytes; arena.h says what each does.
// Home: its rank's thread. Fails: as arena.h says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fusewire/base/status.h"
#include "fusewire/collective/arena/arena_steps.h"
#include "fusewire/collective/kernels/spec.h"

namespace fusewire::collective {

class ArenaMoves final : ArenaSteps {
 public:
  ArenaMoves(ArenaMeeting* meeting, Loans* loans) : ArenaSteps(meeting, loans) {}

  Status Run(const CollectiveSpec& spec, const Arrays& arrays, int64_t deadline_ns);

 private:
  struct Parts;

  Status Broadcast(const ArenaCall& call, int root, const Pieces& array, int64_t deadline_ns);
  Status Scatter(const ArenaCall& call, const std::vector<size_t>& bytes, int root, const Pieces& from,
                 const Pieces& to, int64_t deadline_ns);
  Status AllToAll(const ArenaCall& call, const std::vector<size_t>& send_bytes,
                  const std::vector<size_t>& receive_bytes, const Pieces& from, const Pieces& to, int64_t deadline_ns);
  Status GatherTo(const ArenaCall& call, const std::vector<size_t>& bytes, int root, const Pieces& from,
                  const Pieces& to, int64_t deadline_ns);
  Status ReadParts(const ArenaCall& call, const LoanPlaces& places, const std::vector<size_t>& offsets,
                   const std::vector<size_t>& bytes, const Pieces& to, int64_t deadline_ns);
  Result<size_t> CompareTables(const ArenaCall& call) const;
  std::vector<size_t> OffsetsAt(uint64_t stage) const;
  void CopyPartsIn(const Parts& parts, size_t chunk, uint64_t stage, PieceCursor* read);
  void CopyPartsOut(const Parts& parts, size_t chunk, uint64_t stage, PieceCursor* write, bool stream);
  Status Exchange(const ArenaCall& call, const Parts& parts, size_t largest, const Pieces& from, const Pieces& to,
                  int64_t deadline_ns);
};

}  // namespace fusewire::collective
