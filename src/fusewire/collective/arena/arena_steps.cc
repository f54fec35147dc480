// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/arena/arena_steps.h"

#include <string>

#include "fusewire/collective/kernels/arithmetic.h"

namespace fusewire::collective {

Status CheckBytes(const char* which, size_t has, size_t needs) {
  if (has == needs) return Status::Ok();
  return Status::Invalid(std::string("`") + which + "` has " + std::to_string(has) + " bytes, and should have " +
                         std::to_string(needs))
      .Next("give arrays of the size that follows from the counts");
}

Status CheckList(const char* which, size_t has, size_t ranks) {
  if (has == ranks) return Status::Ok();
  return Status::Invalid(std::string("`") + which + "` has " + std::to_string(has) + " numbers, and should have " +
                         std::to_string(ranks))
      .Next("give a number for each rank");
}

Status CheckRoot(int root, int ranks) {
  if (root >= 0 && root < ranks) return Status::Ok();
  return Status::Invalid("`root` is " + std::to_string(root) + ", and `ranks` is " + std::to_string(ranks))
      .Next("give a rank of the group, from 0 to " + std::to_string(ranks - 1));
}

Status CheckPieces(const Pieces& pieces, size_t element_bytes) {
  for (size_t i = 0; i < pieces.count(); ++i) {
    if (pieces.at(i).bytes % element_bytes == 0) continue;
    return Status::Invalid("piece " + std::to_string(i) + " has " + std::to_string(pieces.at(i).bytes) +
                           " bytes, which is not a multiple of an element's " + std::to_string(element_bytes))
        .Next("cut arrays between elements");
  }
  return Status::Ok();
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
