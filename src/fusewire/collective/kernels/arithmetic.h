// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Reduces arrays: any number of sources in one pass over memory, as wide as the processor allows.
//   to[i] = ((sources[0][i] op sources[1][i]) op sources[2][i]) ...
// always in this order, so that the result depends on nothing else; f16 and bf16 are combined as f32 and rounded once.
// All levels give the same bits, but for the payload of a NaN.
// Home: any thread, pure functions. Owns: nothing. Fails: never; see CheckReduction for what may be asked.
#ifndef FUSEWIRE_COLLECTIVE_KERNELS_ARITHMETIC_H_
#define FUSEWIRE_COLLECTIVE_KERNELS_ARITHMETIC_H_

#include <cstddef>
#include <cstdint>

#include "fusewire/collective/kernels/levels.h"
#include "fusewire/collective/kernels/types.h"

namespace fusewire {
namespace collective {

// The highest that this processor has, and that we were compiled with.
Level BestLevel();

// The kernel of a built-in op, or null where CheckReduction says no.
ReduceKernel FindKernel(Op op, Type type, Level level);

// A built-in op's kernel is looked up once, a user's function is called for one source after the other.
class Reducer {
 public:
  explicit Reducer(const Reduction& reduction, Level level = BestLevel());
  void Reduce(const ReduceCall& call) const;
  // to = a op b
  void Reduce(void* to, const void* a, const void* b, size_t count) const;

  const Reduction& reduction() const { return reduction_; }
  size_t element_bytes() const { return SizeOf(reduction_.type); }
  bool averages() const { return reduction_.op == Op::kAverage; }

 private:
  Reduction reduction_;
  ReduceKernel kernel_;
};

// Copies payload: the one place of this room that does.
void CopyPayload(void* to, const void* from, size_t bytes);
// The same past the caches of `to`, for arrays that would not fit there: half the traffic, as a line that is written
// whole need not be read first.
void StreamPayload(void* to, const void* from, size_t bytes);

}  // namespace collective
}  // namespace fusewire

#endif  // FUSEWIRE_COLLECTIVE_KERNELS_ARITHMETIC_H_
