// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// An arena from Join to Close, and how its collectives copy. These are in arena_reductions.cc and arena_moves.cc.
#include "fusewire/collective/arena/arena.h"

#include <algorithm>
#include <utility>

#include "fusewire/collective/kernels/arithmetic.h"

namespace fusewire::collective {

Result<std::unique_ptr<Arena>> Arena::Join(ArenaSeat seat, const ArenaOptions& options) {
  const int memory = seat.memory;
  std::unique_ptr<Arena> arena(new Arena(std::move(seat), options));
  FUSEWIRE_TRY(arena->meeting_.Join(memory));
  return arena;
}

Arena::Arena(ArenaSeat seat, const ArenaOptions& options)
    : meeting_(seat, options),
      loans_(&meeting_, std::move(seat.processes), options.loans),
      reductions_(&meeting_, &loans_, std::min(options.one_shot_bytes, options.share_bytes)),
      moves_(&meeting_, &loans_) {}

Status Arena::Run(const CollectiveSpec& spec, const Arrays& arrays, int64_t deadline_ns) {
  if (spec.kind == CollectiveKind::kBarrier)
    return meeting_.Meet(ArenaCall::Of(CollectiveKind::kBarrier, {}, kNoRoot, 0), deadline_ns);
  return Reduces(spec.kind) ? reductions_.Run(spec, arrays, deadline_ns) : moves_.Run(spec, arrays, deadline_ns);
}

std::vector<Piece> BlockOf(const Pieces& all, const CollectiveSpec& spec, int rank) {
  const size_t element = SizeOf(spec.reduction.type);
  size_t offset = 0;
  for (int before = 0; before < rank; ++before) offset += spec.counts[static_cast<size_t>(before)] * element;
  std::vector<Piece> block;
  PieceCursor cursor(all);
  cursor.ForRuns(offset, spec.counts[static_cast<size_t>(rank)] * element, [&block](uint8_t* data, size_t, size_t run) {
    block.push_back(Piece{data, run});
  });
  if (block.empty()) block.push_back(Piece{});
  return block;
}

void CopyIn(PieceCursor* from, size_t offset, size_t bytes, uint8_t* to) {
  from->ForRuns(offset, bytes, [to, offset](const uint8_t* data, size_t at, size_t run) {
    CopyPayload(to + (at - offset), data, run);
  });
}

void CopyOut(PieceCursor* to, size_t offset, size_t bytes, const uint8_t* from, bool stream) {
  auto* const copy = stream ? StreamPayload : CopyPayload;
  to->ForRuns(offset, bytes,
              [copy, from, offset](uint8_t* data, size_t at, size_t run) { copy(data, from + (at - offset), run); });
}

void CopyAcross(PieceCursor* from, size_t from_offset, PieceCursor* to, size_t to_offset, size_t bytes, bool stream) {
  auto* const copy = stream ? StreamPayload : CopyPayload;
  to->ForRuns(to_offset, bytes, [&](uint8_t* data, size_t at, size_t run) {
    const size_t begin = from_offset + (at - to_offset);
    from->ForRuns(begin, run, [copy, data, begin](const uint8_t* source, size_t source_at, size_t length) {
      uint8_t* target = data + (source_at - begin);
      if (target != source) copy(target, source, length);
    });
  });
}

}  // namespace fusewire::collective
