// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/arena/arena_steps.h"

#include "fusewire/collective/kernels/arithmetic.h"

namespace fusewire::collective {

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
