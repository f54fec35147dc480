// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Several segments of memory that stand for one long one. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fusewire/base/bytes.h"
#include "fusewire/base/check.h"

namespace fusewire::p2p {

// The sum of the sizes.
template <class Segment>
uint64_t TotalOf(const std::vector<Segment>& segments) {
  uint64_t sum = 0;
  for (const Segment& segment : segments) sum += segment.size;
  return sum;
}

// Copies `from` into the segments, one after the other. They must have room for it.
inline void Scatter(ConstBytes from, const std::vector<Bytes>& segments) {
  FUSEWIRE_DCHECK(from.size <= TotalOf(segments));
  for (const Bytes& segment : segments) {
    size_t size = std::min(segment.size, from.size);
    if (size == 0) continue;
    CopyBytes(segment, from.Sub(0, size));
    from = from.From(size);
  }
  FUSEWIRE_DCHECK(from.empty());
}

// Sets `front` to the first `bytes` of the segments, without empty ones.
inline void TakeFront(const std::vector<Bytes>& segments, uint64_t bytes, std::vector<Bytes>* front) {
  FUSEWIRE_DCHECK(bytes <= TotalOf(segments));
  front->clear();
  for (const Bytes& segment : segments) {
    if (bytes == 0) break;
    if (segment.size == 0) continue;
    auto size = static_cast<size_t>(std::min<uint64_t>(segment.size, bytes));
    front->push_back(segment.Sub(0, size));
    bytes -= size;
  }
  FUSEWIRE_DCHECK(bytes == 0);
}

}  // namespace fusewire::p2p
