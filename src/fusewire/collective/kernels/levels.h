// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Levels of processors, a call of a kernel, and the kernels of each level; arithmetic.h chooses among them. A level
// that this build lacks has no kernels.
// Home: any thread, pure functions. Fails: with null, if there is no kernel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fusewire/collective/kernels/types.h"

namespace fusewire::collective {

enum class Level : uint8_t {
  kScalar = 0,  // the reference, one element at a time
  kBase = 1,    // vectors of 16 bytes, on every processor
  kAvx2 = 2,    // with F16C
  kAvx512 = 3,  // F, BW, DQ and VL
};
constexpr uint8_t kLevels = 4;

// Arrays need no alignment. `to` is one of the sources, or overlaps none of them. `sources_count` is at least 1. The
// result is divided by `divisor`: the number of ranks in it for Op::kAverage, otherwise 1.
struct ReduceCall {
  void* to = nullptr;
  const void* const* sources = nullptr;
  size_t sources_count = 0;
  size_t count = 0;
  uint64_t divisor = 1;
};

using ReduceKernel = void (*)(const ReduceCall& call);

ReduceKernel FindScalar(Op op, Type type);
ReduceKernel FindBase(Op op, Type type);
ReduceKernel FindAvx2(Op op, Type type);
ReduceKernel FindAvx512(Op op, Type type);

}  // namespace fusewire::collective
