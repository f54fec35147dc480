// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Reduces arrays: any number of sources in one pass over memory, as wide as the processor allows.
//   to[i] = ((sources[0][i] op sources[1][i]) op sources[2][i]) ...
// always in this order, so that the result depends only on the sources; f16 and bf16 are combined as f32 and rounded
// once. All levels give the same bits, except for the payload of a NaN.
// Home: any thread, pure functions. Fails: never; CheckReduction has checked the reduction before.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fusewire/collective/kernels/levels.h"
#include "fusewire/collective/kernels/types.h"

namespace fusewire::collective {

// The highest level that both this processor and this build have.
Level BestLevel();

// The kernel of a built-in op; null if CheckReduction refuses the combination.
ReduceKernel FindKernel(Op op, Type type, Level level);

// The kernel of a built-in op is looked up once; a user's function is called for each source in turn.
class Reducer {
 public:
  explicit Reducer(const Reduction& reduction);
  // `ranks`: how many are in the result, if it is of all; an average is divided by it. Otherwise 1.
  void Reduce(void* to, const void* const* sources, size_t sources_count, size_t count, uint64_t ranks) const;

  const Reduction& reduction() const { return reduction_; }
  size_t element_bytes() const { return SizeOf(reduction_.type); }

 private:
  Reduction reduction_;
  ReduceKernel kernel_;
};

// Copies payload; no other function of this room does. The arrays do not overlap.
void CopyPayload(void* to, const void* from, size_t bytes);
// The same with stores that bypass the caches, for arrays that would not fit there. It halves the traffic of the
// stores: a line that is written whole is not read first.
void StreamPayload(void* to, const void* from, size_t bytes);

}  // namespace fusewire::collective
