// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The collectives of an arena that reduce; arena.h says what each does.
// Home: its rank's thread. Owns: where what is read to be reduced lands. Fails: as arena.h says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fusewire/base/status.h"
#include "fusewire/collective/arena/arena_steps.h"
#include "fusewire/collective/kernels/arithmetic.h"
#include "fusewire/collective/kernels/spec.h"

namespace fusewire::collective {

class ArenaReductions final : ArenaSteps {
 public:
  ArenaReductions(ArenaMeeting* meeting, Loans* loans, size_t one_shot_bytes)
      : ArenaSteps(meeting, loans), one_shot_bytes_(one_shot_bytes) {}

  Status Run(const CollectiveSpec& spec, const Arrays& arrays, int64_t deadline_ns);

 private:
  Status ReduceScatter(const CollectiveSpec& spec, const Pieces& from, const Pieces& to, int64_t deadline_ns);
  Status ReduceAll(const ArenaCall& call, const Reduction& reduction, int root, const Pieces& from, const Pieces& to,
                   int64_t deadline_ns);
  Status ReduceTiny(const ArenaCall& call, const Reducer& reducer, const Pieces& from, const Pieces& to,
                    int64_t deadline_ns);
  Status ReduceOneShot(const ArenaCall& call, const Reducer& reducer, const Pieces& from, const Pieces& to,
                       int64_t deadline_ns);
  Status ReduceSlices(const ArenaCall& call, const Reducer& reducer, int root, const Pieces& from, const Pieces& to,
                      int64_t deadline_ns);
  Status ReduceLoans(const ArenaCall& call, const Reducer& reducer, const Pieces& from, const Pieces& to,
                     const LoanPlaces& places, int64_t deadline_ns);
  // Reduces so many bytes at `offset` of all ranks' arrays, as far as `places` goes.
  Status ReduceLent(const ArenaCall& call, const Reducer& reducer, const uint8_t* own, const LoanPlaces& places,
                    size_t offset, size_t bytes, uint8_t* to);
  void ReduceRuns(const Reducer& reducer, uint64_t stage, size_t share_offset, PieceCursor* from, PieceCursor* to,
                  size_t from_offset, size_t to_offset, size_t bytes, uint8_t* mirror);

  const size_t one_shot_bytes_;
  std::vector<uint8_t> landing_;
};

}  // namespace fusewire::collective
