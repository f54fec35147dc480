// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Memory in several parts that stands for one long piece. Pure.
// Home: none. Owns: nothing. Fails: never.
#ifndef FUSEWIRE_P2P_PARTS_H_
#define FUSEWIRE_P2P_PARTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fusewire/base/bytes.h"
#include "fusewire/base/check.h"

namespace fusewire {
namespace p2p {

// The sum of their sizes.
template <class Part>
uint64_t TotalOf(const std::vector<Part>& parts) {
  uint64_t sum = 0;
  for (const Part& part : parts) sum += part.size;
  return sum;
}

// Copies `from` into the parts, one after the other; they have room for it.
inline void Scatter(ConstBytes from, const std::vector<Bytes>& parts) {
  FUSEWIRE_DCHECK(from.size <= TotalOf(parts));
  for (const Bytes& part : parts) {
    size_t size = std::min(part.size, from.size);
    if (size == 0) continue;
    CopyBytes(part, from.Sub(0, size));
    from = from.From(size);
  }
}

// The first `bytes` of the parts, without empty ones.
inline void TakeFront(const std::vector<Bytes>& parts, uint64_t bytes, std::vector<Bytes>* front) {
  FUSEWIRE_DCHECK(bytes <= TotalOf(parts));
  front->clear();
  for (const Bytes& part : parts) {
    if (bytes == 0) break;
    if (part.size == 0) continue;
    auto size = static_cast<size_t>(std::min<uint64_t>(part.size, bytes));
    front->push_back(part.Sub(0, size));
    bytes -= size;
  }
}

}  // namespace p2p
}  // namespace fusewire

#endif  // FUSEWIRE_P2P_PARTS_H_
