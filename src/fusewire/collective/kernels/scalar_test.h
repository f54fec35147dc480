// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// For tests: the reference of the vector kernels: one element after the other, as a reader would do it by hand.
// Home: any thread, pure functions. Fails: with null, if a type has no such operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "fusewire/collective/kernels/levels.h"

namespace fusewire::collective::scalar {

inline uint32_t BitsOf(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
}

inline float FloatOf(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}

inline float Bf16ToFloat(uint16_t half) { return FloatOf(static_cast<uint32_t>(half) << 16); }

inline uint16_t FloatToBf16(float value) {
  const uint32_t bits = BitsOf(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// Reads and writes one element; arrays need no alignment.
template <class T>
struct Plain {
  using Stored = T;
  using Number = T;
  static T Read(T stored) { return stored; }
  static T Write(T number) { return number; }
};
struct Truth : Plain<uint8_t> {
  static uint8_t Read(uint8_t stored) { return stored != 0 ? 1 : 0; }
};
struct Half {
  using Stored = uint16_t;
  using Number = float;
  static float Read(uint16_t stored) { return HalfToFloat(stored); }
  static uint16_t Write(float number) { return FloatToHalf(number); }
};
struct Bf16 {
  using Stored = uint16_t;
  using Number = float;
  static float Read(uint16_t stored) { return Bf16ToFloat(stored); }
  static uint16_t Write(float number) { return FloatToBf16(number); }
};

template <Op op, class T>
T Combine(T a, T b) {
  if constexpr (op == Op::kMin) return b < a || b != b ? b : a;
  if constexpr (op == Op::kMax) return b > a || b != b ? b : a;
  if constexpr (std::is_floating_point_v<T>) {
    return op == Op::kProduct ? a * b : a + b;
  } else {
    // In 64 unsigned bits nothing overflows that does not wrap around.
    const auto x = static_cast<uint64_t>(static_cast<int64_t>(a));
    const auto y = static_cast<uint64_t>(static_cast<int64_t>(b));
    switch (op) {
      case Op::kProduct: return static_cast<T>(x * y);
      case Op::kAnd: return static_cast<T>(x & y);
      case Op::kOr: return static_cast<T>(x | y);
      case Op::kXor: return static_cast<T>(x ^ y);
      default: return static_cast<T>(x + y);
    }
  }
}

template <class T>
T Divided(T number, uint64_t divisor) {
  const T by = static_cast<T>(divisor);
  if (divisor == 1) return number;
  // Only small unsigned types can hold less than the number of ranks: their sums are less than it, too.
  return static_cast<uint64_t>(by) == divisor ? static_cast<T>(number / by) : T{0};
}

template <class Lane, Op op>
void Reduce(const ReduceCall& call) {
  using Stored = typename Lane::Stored;
  using Number = typename Lane::Number;
  auto read = [&call](size_t source, size_t at) {
    Stored stored;
    __builtin_memcpy(&stored, static_cast<const char*>(call.sources[source]) + at * sizeof(Stored), sizeof(Stored));
    return Lane::Read(stored);
  };
  for (size_t at = 0; at < call.count; ++at) {
    Number number = read(0, at);
    for (size_t s = 1; s < call.sources_count; ++s) number = Combine<op>(number, read(s, at));
    const Stored stored = Lane::Write(Divided(number, call.divisor));
    __builtin_memcpy(static_cast<char*>(call.to) + at * sizeof(Stored), &stored, sizeof(Stored));
  }
}

// For levels.h.
struct OneByOne {
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

inline ReduceKernel Find(Op op, Type type) { return KernelFinder<OneByOne>::Find(op, type); }

}  // namespace fusewire::collective::scalar
