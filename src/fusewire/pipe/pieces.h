// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What the segments of messages cost beyond their bytes, which is all that both ends count as credit: each is memory of
// its own, aligned, with a Buffer and a place to land. Counted against the budget while the message is held, so that
// messages of tiny segments do not fill memory that the budget knows nothing of.
// Home: the pipe's. Owns: a part of the receive budget. Fails: OnReceived, if one pipe holds very many segments while
// the budget is used up.
#pragma once

#include <cstdint>

#include "fusewire/base/check.h"
#include "fusewire/base/status.h"
#include "fusewire/buffer/budget.h"

namespace fusewire::pipe {

class Pieces {
 public:
  explicit Pieces(Budget* budget) : budget_(budget) {}
  ~Pieces();
  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;

  // A message of so many segments begins.
  Status OnReceived(uint16_t segments) {
    if (segments <= 1) return Status::Ok();
    held_bytes_ += segments * kPieceBytes;
    return held_bytes_ <= taken_bytes_ + kFreeBytes ? Status::Ok() : Take();
  }
  // The layer above is done with it.
  void Consume(uint16_t segments) {
    if (segments <= 1) return;
    FUSEWIRE_CHECK(segments * kPieceBytes <= held_bytes_);
    held_bytes_ -= segments * kPieceBytes;
    if (taken_bytes_ > held_bytes_) GiveBack();
  }

 private:
  // Alignment, a Buffer, a place; rounded.
  static constexpr uint64_t kPieceBytes = 128;
  // So much is not counted, like a pipe's standing window: the usual message costs nothing here.
  static constexpr uint64_t kFreeBytes = 256 * 1024;

  Status Take();
  void GiveBack();

  Budget* const budget_;
  uint64_t held_bytes_ = 0;
  uint64_t taken_bytes_ = 0;  // from the budget
};

}  // namespace fusewire::pipe
