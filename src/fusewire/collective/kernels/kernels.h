// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The vector kernels, for vectors of any width; kernels_*.cc compile this file for each level. The namespace has the
// level's name, and no function of the standard library is called. So the linker can't merge a function compiled for a
// newer processor with one for all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "fusewire/collective/kernels/levels.h"

namespace fusewire::collective {

#if defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
inline namespace avx512 {
constexpr size_t kWidth = 64;
#elif defined(__AVX2__) && defined(__F16C__)
inline namespace avx2 {
constexpr size_t kWidth = 32;
#else
inline namespace base {
constexpr size_t kWidth = 16;
#endif

template <class T, size_t bytes = kWidth>
struct VectorOf {
  typedef T Of __attribute__((vector_size(bytes)));  // NOLINT(modernize-use-using): only a typedef takes the attribute
};
template <class T, size_t bytes = kWidth>
using Vector = typename VectorOf<T, bytes>::Of;

// How an array of T is read and written: as vectors of Wide, kLanes elements at a time; Arithmetic is a lane's type,
// and One reads and writes a single element, or is void.
template <class T, size_t bytes = kWidth>
struct Plain {
  using Element = T;
  using Arithmetic = T;
  using Wide = Vector<T, bytes>;
  using One = Plain<T, sizeof(T)>;
  static constexpr size_t kLanes = bytes / sizeof(T);
  static inline Wide Load(const T* from) {
    Wide wide;
    __builtin_memcpy(&wide, from, sizeof(wide));
    return wide;
  }
  static inline void Store(T* to, Wide wide) { __builtin_memcpy(to, &wide, sizeof(wide)); }
};

struct Truth : Plain<uint8_t> {
  using One = void;
  static inline Wide Load(const uint8_t* from) { return ((Wide)(Plain<uint8_t>::Load(from) != 0)) & 1; }
};

struct Bf16 {
  using Element = uint16_t;
  using Arithmetic = float;
  using Wide = Vector<float>;
  using Bits = Vector<uint32_t>;
  using Halves = Vector<uint16_t, kWidth / 2>;
  using One = void;
  static constexpr size_t kLanes = kWidth / sizeof(float);
  static inline Wide Load(const uint16_t* from) {
    Halves halves;
    __builtin_memcpy(&halves, from, sizeof(halves));
    return (Wide)(__builtin_convertvector(halves, Bits) << 16);
  }
  static inline void Store(uint16_t* to, Wide wide) {
    const Bits bits = (Bits)wide;
    const Bits rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const Bits quiet = (bits >> 16) | 0x40;
    const Bits chosen = (Bits)(wide != wide ? quiet : rounded);
    const Halves halves = __builtin_convertvector(chosen, Halves);
    __builtin_memcpy(to, &halves, sizeof(halves));
  }
};

struct Half {
  using Element = uint16_t;
  using Arithmetic = float;
  using Wide = Vector<float>;
  using One = void;
  static constexpr size_t kLanes = kWidth / sizeof(float);
  static inline Wide Load(const uint16_t* from) {
#if defined(__AVX512BW__)
    return (Wide)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif defined(__F16C__)
    return (Wide)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#elif defined(__aarch64__)
    return (Wide)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from)));
#else
    uint16_t halves[kLanes];
    __builtin_memcpy(halves, from, sizeof(halves));
    Wide wide;
    for (size_t lane = 0; lane < kLanes; ++lane) wide[lane] = HalfToFloat(halves[lane]);
    return wide;
#endif
  }
  static inline void Store(uint16_t* to, Wide wide) {
#if defined(__AVX512BW__)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtps_ph((__m512)wide, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph((__m256)wide, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__aarch64__)
    vst1_u16(to, vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)wide)));
#else
    uint16_t halves[kLanes];
    for (size_t lane = 0; lane < kLanes; ++lane) halves[lane] = FloatToHalf(wide[lane]);
    __builtin_memcpy(to, halves, sizeof(halves));
#endif
  }
};

// Signed overflow is undefined: integers are added and multiplied as unsigned ones.
template <class T, size_t bytes>
using Wrapping =
    Vector<typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::decay<T>>::type, bytes>;

template <Op op, class T, class V>
inline V Combined(V a, V b) {
  using U = Wrapping<T, sizeof(V)>;
  if constexpr (op == Op::kSum) return (V)((U)a + (U)b);
  if constexpr (op == Op::kProduct) return (V)((U)a * (U)b);
  // The first stays unless the other is less, or is a NaN.
  if constexpr (op == Op::kMin) return ((b < a) | (b != b)) ? b : a;
  if constexpr (op == Op::kMax) return ((b > a) | (b != b)) ? b : a;
  if constexpr (op == Op::kAnd) return a & b;
  if constexpr (op == Op::kOr) return a | b;
  if constexpr (op == Op::kXor) return a ^ b;
}

template <class Lane>
inline typename Lane::Wide Divided(typename Lane::Wide wide, uint64_t divisor) {
  using T = typename Lane::Arithmetic;
  if (divisor == 1) return wide;
  for (size_t lane = 0; lane < Lane::kLanes; ++lane) {
    // Only small unsigned types can hold less than the number of ranks: their sums are less than it, too.
    const T by = static_cast<T>(divisor);
    wide[lane] = static_cast<uint64_t>(by) == divisor ? static_cast<T>(wide[lane] / by) : T{0};
  }
  return wide;
}

template <class Lane, Op op>
inline void ReduceVector(const ReduceCall& call, size_t at) {
  using Element = typename Lane::Element;
  using T = typename Lane::Arithmetic;
  typename Lane::Wide sum = Lane::Load(static_cast<const Element*>(call.sources[0]) + at);
  for (size_t s = 1; s < call.sources_count; ++s) {
    sum = Combined<op, T>(sum, Lane::Load(static_cast<const Element*>(call.sources[s]) + at));
  }
  Lane::Store(static_cast<Element*>(call.to) + at, Divided<Lane>(sum, call.divisor));
}

// The elements that are left do not fill a vector. A few are reduced one at a time: loading a vector stalls until the
// stores that have just filled it piece by piece reach the cache. More are padded with zeros.
constexpr size_t kFewLanes = 16;

template <class Lane, Op op>
void ReduceRest(const ReduceCall& call, size_t at) {
  using Element = typename Lane::Element;
  using T = typename Lane::Arithmetic;
  if constexpr (Lane::kLanes <= kFewLanes && !std::is_void_v<typename Lane::One>) {
    for (; at < call.count; ++at) ReduceVector<typename Lane::One, op>(call, at);
  } else {
    const size_t bytes = (call.count - at) * sizeof(Element);
    if (bytes == 0) return;
    Element padded[Lane::kLanes] = {};
    __builtin_memcpy(padded, static_cast<const Element*>(call.sources[0]) + at, bytes);
    typename Lane::Wide sum = Lane::Load(padded);
    for (size_t s = 1; s < call.sources_count; ++s) {
      __builtin_memcpy(padded, static_cast<const Element*>(call.sources[s]) + at, bytes);
      sum = Combined<op, T>(sum, Lane::Load(padded));
    }
    Lane::Store(padded, Divided<Lane>(sum, call.divisor));
    __builtin_memcpy(static_cast<Element*>(call.to) + at, padded, bytes);
  }
}

// Four vectors of each source at a time: all are read before the first is written, so `to` may be a source.
template <class Lane, Op op>
void Reduce(const ReduceCall& call) {
  using Element = typename Lane::Element;
  using T = typename Lane::Arithmetic;
  using Wide = typename Lane::Wide;
  constexpr size_t kLanes = Lane::kLanes;
  auto* const to = static_cast<Element*>(call.to);
  size_t at = 0;
  for (; at + 4 * kLanes <= call.count; at += 4 * kLanes) {
    const Element* from = static_cast<const Element*>(call.sources[0]) + at;
    Wide sum0 = Lane::Load(from);
    Wide sum1 = Lane::Load(from + kLanes);
    Wide sum2 = Lane::Load(from + 2 * kLanes);
    Wide sum3 = Lane::Load(from + 3 * kLanes);
    for (size_t s = 1; s < call.sources_count; ++s) {
      from = static_cast<const Element*>(call.sources[s]) + at;
      sum0 = Combined<op, T>(sum0, Lane::Load(from));
      sum1 = Combined<op, T>(sum1, Lane::Load(from + kLanes));
      sum2 = Combined<op, T>(sum2, Lane::Load(from + 2 * kLanes));
      sum3 = Combined<op, T>(sum3, Lane::Load(from + 3 * kLanes));
    }
    Lane::Store(to + at, Divided<Lane>(sum0, call.divisor));
    Lane::Store(to + at + kLanes, Divided<Lane>(sum1, call.divisor));
    Lane::Store(to + at + 2 * kLanes, Divided<Lane>(sum2, call.divisor));
    Lane::Store(to + at + 3 * kLanes, Divided<Lane>(sum3, call.divisor));
  }
  for (; at + kLanes <= call.count; at += kLanes) ReduceVector<Lane, op>(call, at);
  ReduceRest<Lane, op>(call, at);
}

// For levels.h.
struct Vectors {
  template <class T>
  using Number = Plain<T>;
  using F16 = Half;
  using Brain16 = Bf16;
  using Truths = Truth;
  template <class Lane, Op op>
  static ReduceKernel Kernel() {
    return Reduce<Lane, op>;
  }
};

inline ReduceKernel FindHere(Op op, Type type) { return KernelFinder<Vectors>::Find(op, type); }

}  // namespace avx512, avx2 or base

}  // namespace fusewire::collective
