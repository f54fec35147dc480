// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/run/run_memory.h"

#include <algorithm>
#include <string>

#include "fusewire/base/check.h"

namespace fusewire::collective {
namespace {

void FillStarts(const Pieces& pieces, std::vector<size_t>* starts) {
  starts->clear();
  if (pieces.count() < 2) return;
  size_t at = 0;
  for (size_t i = 0; i < pieces.count(); ++i) {
    starts->push_back(at);
    at += pieces.at(i).bytes;
  }
}

}  // namespace

Status RunMemory::Begin(const Pieces& input, const Pieces& output) {
  input_ = input;
  output_ = output;
  FillStarts(input_, &input_starts_);
  FillStarts(output_, &output_starts_);
  if (scratch_.empty() && scratch_bytes_ > 0) scratch_ = Buffer::TryAllocate(scratch_bytes_);
  FUSEWIRE_DCHECK(scratch_.empty() || scratch_.size() >= scratch_bytes_);
  if (scratch_.size() >= scratch_bytes_) return Status::Ok();
  return Status::Overloaded("no memory for " + std::to_string(scratch_bytes_) + " bytes of scratch")
      .Next("free memory, or make smaller operations");
}

size_t RunMemory::At(const Span& span, size_t from, uint8_t** data) const {
  const size_t at = span.at * element_bytes_ + from;
  const size_t left = BytesOf(span) - from;
  FUSEWIRE_DCHECK(from < BytesOf(span));
  if (span.memory == Memory::kScratch) {
    FUSEWIRE_DCHECK(at + left <= scratch_bytes_);
    *data = scratch_.bytes().data + at;
    return left;
  }
  const Pieces& pieces = span.memory == Memory::kInput ? input_ : output_;
  FUSEWIRE_DCHECK(at + left <= pieces.bytes());
  if (pieces.count() < 2) {
    *data = static_cast<uint8_t*>(pieces.at(0).data) + at;
    return left;
  }
  const std::vector<size_t>& starts = span.memory == Memory::kInput ? input_starts_ : output_starts_;
  const auto after = std::upper_bound(starts.begin(), starts.end(), at);
  const auto index = static_cast<size_t>(after - starts.begin()) - 1;
  const size_t within = at - starts[index];
  FUSEWIRE_DCHECK(within < pieces.at(index).bytes);
  *data = static_cast<uint8_t*>(pieces.at(index).data) + within;
  return std::min(left, pieces.at(index).bytes - within);
}

}  // namespace fusewire::collective
