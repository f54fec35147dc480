// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/kernels/arithmetic.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "fusewire/base/check.h"

namespace fusewire::collective {
namespace {

#if defined(__x86_64__)
constexpr size_t kLineBytes = 64;
#endif

Level FindBestLevel() {
#if defined(__x86_64__)
  const bool wide = __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
                    __builtin_cpu_supports("avx512vl") != 0;
  if (wide && FindAvx512(Op::kSum, Type::kF32) != nullptr) return Level::kAvx512;
  // Every processor with AVX2 also has F16C, for which compilers have different names.
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
    case Level::kBase: return FindBase(op, type);
    case Level::kAvx2: return FindAvx2(op, type);
    case Level::kAvx512: return FindAvx512(op, type);
  }
  return nullptr;
}

Reducer::Reducer(const Reduction& reduction) : reduction_(reduction) {
  FUSEWIRE_CHECK(CheckReduction(reduction).ok());
  kernel_ = reduction.op == Op::kUser ? nullptr : FindKernel(reduction.op, reduction.type, BestLevel());
  FUSEWIRE_CHECK(kernel_ != nullptr || reduction.op == Op::kUser);
}

void Reducer::Reduce(void* to, const void* const* sources, size_t sources_count, size_t count, uint64_t ranks) const {
  FUSEWIRE_DCHECK(sources_count > 0);
  FUSEWIRE_DCHECK(ranks > 0);
  if (kernel_ != nullptr)
    return kernel_({to, sources, sources_count, count, reduction_.op == Op::kAverage ? ranks : 1});
  // The others are combined into the first source, so `to` must not be one of them.
  for (size_t s = 1; s < sources_count; ++s) FUSEWIRE_CHECK(to != sources[s]);
  if (to != sources[0]) CopyPayload(to, sources[0], count * element_bytes());
  for (size_t s = 1; s < sources_count; ++s) reduction_.user.combine(to, sources[s], count, reduction_.user.context);
}

void CopyPayload(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

#if defined(__x86_64__)

void StreamPayload(void* to, const void* from, size_t bytes) {
  auto* target = static_cast<uint8_t*>(to);
  const auto* source = static_cast<const uint8_t*>(from);
  const size_t head = std::min((kLineBytes - reinterpret_cast<uintptr_t>(target) % kLineBytes) % kLineBytes, bytes);
  FUSEWIRE_DCHECK(head == bytes || reinterpret_cast<uintptr_t>(target + head) % kLineBytes == 0);
  CopyPayload(target, source, head);
  size_t at = head;
  for (; at + kLineBytes <= bytes; at += kLineBytes) {
    __m128i line[4];
    for (size_t i = 0; i < 4; ++i) line[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + at) + i);
    for (size_t i = 0; i < 4; ++i) _mm_stream_si128(reinterpret_cast<__m128i*>(target + at) + i, line[i]);
  }
  CopyPayload(target + at, source + at, bytes - at);
  _mm_sfence();
}

#else

void StreamPayload(void* to, const void* from, size_t bytes) { CopyPayload(to, from, bytes); }

#endif

}  // namespace fusewire::collective
