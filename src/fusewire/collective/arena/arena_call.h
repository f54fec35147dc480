// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The call that a rank makes, as two words that ranks compare before they touch a byte.
// Home: any thread, plain values. Fails: never; a peer may have written any number.
#pragma once

#include <cstdint>
#include <string>

#include "fusewire/base/status.h"
#include "fusewire/collective/kernels/types.h"

namespace fusewire::collective {

// If every rank knows the sizes of all parts, `amount` is the sum of their bytes, with a digest of the sizes above it.
constexpr int kPartsBytesBits = 44;
constexpr uint64_t kPartsBytesMask = (uint64_t{1} << kPartsBytesBits) - 1;

struct ArenaCall {
  static constexpr uint64_t kDeclined = ~uint64_t{0};

  static ArenaCall Of(CollectiveKind kind, const Reduction& reduction, int root, uint64_t amount);
  // The call of a rank that doesn't make its own: its caller gave it up (kCancelled), its turn came too late
  // (kTimeout), or it can't be made.
  static ArenaCall Declined(Code why) { return {kDeclined, static_cast<uint64_t>(why)}; }
  // Why a call fails that this one is compared with.
  Code CodeOfDifference() const;
  bool operator==(const ArenaCall& other) const {
    return kind_op_type_root == other.kind_op_type_root && amount == other.amount;
  }
  // "all-reduce sum of 12 f32"
  std::string Describe() const;
  // What its rank does: "wants all-reduce sum of 12 f32"
  std::string Says() const;

  uint64_t kind_op_type_root = 0;
  uint64_t amount = 0;  // elements, or bytes and a digest, see kPartsBytesBits; or why it was declined
};

}  // namespace fusewire::collective
