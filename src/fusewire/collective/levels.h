// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The kernels of each level; see arithmetic.h. A level that we were not compiled for has none.
// Home: any thread, pure functions. Owns: nothing. Fails: null where there is no kernel.
#ifndef FUSEWIRE_COLLECTIVE_LEVELS_H_
#define FUSEWIRE_COLLECTIVE_LEVELS_H_

#include "fusewire/collective/arithmetic.h"
#include "fusewire/collective/compression.h"

namespace fusewire {
namespace collective {

ReduceKernel FindScalar(Op op, Type type);
ReduceKernel FindBase(Op op, Type type);
ReduceKernel FindAvx2(Op op, Type type);
ReduceKernel FindAvx512(Op op, Type type);

// By Compression.
struct CompressKernels {
  void (*compress[kCompressions])(const CompressCall& call);
  void (*decompress[kCompressions])(const DecompressCall& call);
};
// The reference.
CompressKernels CompressScalar();
CompressKernels CompressBase();
CompressKernels CompressAvx2();
CompressKernels CompressAvx512();

}  // namespace collective
}  // namespace fusewire

#endif  // FUSEWIRE_COLLECTIVE_LEVELS_H_
