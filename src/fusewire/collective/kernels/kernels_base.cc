// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/kernels/kernels.h"
#include "fusewire/collective/kernels/levels.h"

namespace fusewire::collective {

ReduceKernel FindBase(Op op, Type type) { return FindHere(op, type); }

}  // namespace fusewire::collective
