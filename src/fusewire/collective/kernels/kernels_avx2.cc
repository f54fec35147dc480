// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Compiled for AVX2 and F16C; see CMakeLists.txt. On other machines it is empty.
#include "fusewire/collective/kernels/kernels.h"

namespace fusewire::collective {

#if defined(__AVX2__) && defined(__F16C__)
ReduceKernel FindAvx2(Op op, Type type) { return FindHere(op, type); }
#else
ReduceKernel FindAvx2(Op, Type) { return nullptr; }
#endif

}  // namespace fusewire::collective
