// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A list of arrays that is treated as one long one: many small tensors in one collective, without packing them first.
// Home: any thread, plain values. Owns: nothing; the list and its arrays are the caller's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fusewire/base/check.h"

namespace fusewire::collective {

inline size_t SumOf(const std::vector<size_t>& counts) {
  size_t sum = 0;
  for (const size_t count : counts) sum += count;
  return sum;
}

// `bytes` is a multiple of the element's size.
struct Piece {
  void* data = nullptr;
  size_t bytes = 0;
};

class Pieces {
 public:
  Pieces() = default;
  Pieces(const Piece* pieces, size_t count) : pieces_(pieces), count_(count) {
    for (size_t i = 0; i < count; ++i) bytes_ += pieces[i].bytes;
  }
  // One array needs no list.
  Pieces(void* data, size_t bytes) : bytes_(bytes) { own_ = Piece{data, bytes}; }

  size_t bytes() const { return bytes_; }
  size_t count() const { return pieces_ == nullptr ? 1 : count_; }
  const Piece& at(size_t index) const {
    FUSEWIRE_DCHECK(index < count());
    return pieces_ == nullptr ? own_ : pieces_[index];
  }

 private:
  const Piece* pieces_ = nullptr;
  size_t count_ = 0;
  size_t bytes_ = 0;
  Piece own_;
};

// Walks through pieces by offsets that mostly grow. A smaller offset than before starts again at the first piece.
class PieceCursor {
 public:
  explicit PieceCursor(const Pieces& pieces) : pieces_(&pieces) {}

  // Calls visit(data, offset, bytes) for each run of [offset, offset + bytes), which must lie within the pieces.
  template <class Visit>
  void ForRuns(size_t offset, size_t bytes, Visit visit) {
    const size_t end = offset + bytes;
    FUSEWIRE_DCHECK(end <= pieces_->bytes());
    if (offset < piece_start_) {
      piece_ = 0;
      piece_start_ = 0;
    }
    while (offset < end) {
      const Piece& piece = pieces_->at(piece_);
      FUSEWIRE_DCHECK(offset >= piece_start_);
      const size_t within = offset - piece_start_;
      if (within >= piece.bytes) {
        piece_start_ += piece.bytes;
        ++piece_;
        continue;
      }
      const size_t run = piece.bytes - within < end - offset ? piece.bytes - within : end - offset;
      visit(static_cast<uint8_t*>(piece.data) + within, offset, run);
      offset += run;
    }
  }

 private:
  const Pieces* pieces_;
  size_t piece_ = 0;
  size_t piece_start_ = 0;
};

}  // namespace fusewire::collective
