// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Compiled for AVX-512; see CMakeLists.txt. On other machines it is empty.
#include "fusewire/collective/kernels/kernels.h"

namespace fusewire::collective {

#if defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
ReduceKernel FindAvx512(Op op, Type type) { return FindHere(op, type); }
#else
ReduceKernel FindAvx512(Op, Type) { return nullptr; }
#endif

}  // namespace fusewire::collective
