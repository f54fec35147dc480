// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/arithmetic.h"

#include <cstring>

#include "fusewire/base/check.h"
#include "fusewire/collective/levels.h"

namespace fusewire {
namespace collective {
namespace {

Level FindBestLevel() {
#if defined(__x86_64__)
  const bool wide = __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
                    __builtin_cpu_supports("avx512vl") != 0;
  if (wide && FindAvx512(Op::kSum, Type::kF32) != nullptr) return Level::kAvx512;
  // Every processor with AVX2 converts halves, too; what the compiler's words for it are differs.
  if (__builtin_cpu_supports("avx2") != 0 && FindAvx2(Op::kSum, Type::kF32) != nullptr) return Level::kAvx2;
#endif
  return Level::kBase;
}

}  // namespace

Level BestLevel() {
  static const Level best = FindBestLevel();
  return best;
}

ReduceKernel FindKernel(Op op, Type type, Level level) {
  switch (level) {
    case Level::kScalar: return FindScalar(op, type);
    case Level::kBase: return FindBase(op, type);
    case Level::kAvx2: return FindAvx2(op, type);
    case Level::kAvx512: return FindAvx512(op, type);
  }
  return nullptr;
}

Reducer::Reducer(const Reduction& reduction, Level level) : reduction_(reduction) {
  FUSEWIRE_CHECK(CheckReduction(reduction).ok());
  kernel_ = reduction.op == Op::kUser ? nullptr : FindKernel(reduction.op, reduction.type, level);
  FUSEWIRE_CHECK(kernel_ != nullptr || reduction.op == Op::kUser);
}

void Reducer::Reduce(const ReduceCall& call) const {
  FUSEWIRE_DCHECK(call.sources_count > 0);
  if (kernel_ != nullptr) return kernel_(call);
  // The first source is what the others are combined into: `to` may be no other one.
  const size_t bytes = call.count * element_bytes();
  for (size_t s = 1; s < call.sources_count; ++s) FUSEWIRE_CHECK(call.to != call.sources[s]);
  if (call.to != call.sources[0]) CopyPayload(call.to, call.sources[0], bytes);
  for (size_t s = 1; s < call.sources_count; ++s) {
    reduction_.user.combine(call.to, call.sources[s], call.count, reduction_.user.context);
  }
  if (call.mirror != nullptr) CopyPayload(call.mirror, call.to, bytes);
}

void Reducer::Reduce(void* to, const void* a, const void* b, size_t count) const {
  const void* const sources[] = {a, b};
  ReduceCall call;
  call.to = to;
  call.sources = sources;
  call.sources_count = 2;
  call.count = count;
  Reduce(call);
}

void CopyPayload(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace collective
}  // namespace fusewire
