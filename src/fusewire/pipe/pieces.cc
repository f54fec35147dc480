// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/pieces.h"

#include <string>

namespace fusewire::pipe {
namespace {

// A pipe that holds no more than this is not ended, however little is left for others.
constexpr uint64_t kPipeBytesMax = 16 << 20;

}  // namespace

Pieces::~Pieces() {
  if (taken_bytes_ > 0) budget_->GiveBack(taken_bytes_);
}

Status Pieces::Take() {
  const uint64_t more = held_bytes_ - taken_bytes_;
  taken_bytes_ = held_bytes_;
  const bool fits = budget_->Take(more);
  if (fits || held_bytes_ <= kPipeBytesMax) return Status::Ok();
  return Status::Overloaded("the peer's messages have " + std::to_string(held_bytes_ / kPieceBytes) +
                            " segments that are not consumed, and the budget is used up")
      .Next("put more into each segment, or raise receive_budget_bytes");
}

void Pieces::GiveBack() {
  const uint64_t less = taken_bytes_ - held_bytes_;
  taken_bytes_ -= less;
  budget_->GiveBack(less);
}

}  // namespace fusewire::pipe
