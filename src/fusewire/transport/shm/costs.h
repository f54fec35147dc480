// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The cost of a byte for its reader: copied out of the ring, or out of the writer's memory. The kernel looks up each
// page of a loan; a ring that stays in a cache can take half of the time, and its writer copies at the same time as its
// reader.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace fusewire::transport {

class Costs {
 public:
  void OnRing(size_t bytes, int64_t ns) { ring_.Add(bytes, ns); }
  void OnLoan(size_t bytes, int64_t ns) { loan_.Add(bytes, ns); }
  // Better not lent. Changes its mind only for a good part of the cost: a loan spares the writer's processor.
  bool RingCostsLess() {
    if (ring_.samples < kSamplesMin || loan_.samples < kSamplesMin) return false;
    prefers_ring_ = ring_.ns_per_kib < loan_.ns_per_kib * (prefers_ring_ ? 0.9 : 0.7);
    return prefers_ring_;
  }

 private:
  static constexpr int kSamplesMin = 4;
  struct Cost {
    int samples = 0;
    double ns_per_kib = 0;
    void Add(size_t bytes, int64_t ns) {
      double sample = static_cast<double>(ns) * 1024 / static_cast<double>(std::max<size_t>(bytes, 1));
      // Another thread may have had the processor meanwhile.
      if (samples >= kSamplesMin) sample = std::min(sample, 2 * ns_per_kib);
      samples = std::min(samples + 1, kSamplesMin);
      ns_per_kib += (sample - ns_per_kib) / (samples < kSamplesMin ? samples : 8);
    }
  };
  Cost ring_, loan_;
  bool prefers_ring_ = false;
};

}  // namespace fusewire::transport
