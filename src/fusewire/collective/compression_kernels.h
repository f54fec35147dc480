// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The kernels of compression.h, over the vectors of kernels.h and for the same levels.
// Home: any thread, pure functions. Owns: nothing. Fails: never.
#ifndef FUSEWIRE_COLLECTIVE_COMPRESSION_KERNELS_H_
#define FUSEWIRE_COLLECTIVE_COMPRESSION_KERNELS_H_

#include "fusewire/collective/compression.h"
#include "fusewire/collective/kernels.h"
#include "fusewire/collective/levels.h"

namespace fusewire {
namespace collective {

#if defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
inline namespace avx512 {
#elif defined(__AVX2__) && defined(__F16C__)
inline namespace avx2 {
#else
inline namespace base {
#endif

using Floats = Plain<float>;
using FloatVector = Vector<float>;
constexpr size_t kFloats = Floats::kLanes;

// How much of a residual is kept: what is finite.
inline FloatVector Finite(FloatVector lost) { return lost - lost == 0 ? lost : FloatVector{}; }

// Reads up to a vector of floats, and pads with zeros.
inline FloatVector LoadSome(const float* from, size_t count) {
  if (count >= kFloats) return Floats::Load(from);
  float padded[kFloats] = {};
  __builtin_memcpy(padded, from, count * sizeof(float));
  return Floats::Load(padded);
}
inline void StoreSome(float* to, FloatVector wide, size_t count) {
  if (count >= kFloats) return Floats::Store(to, wide);
  float padded[kFloats];
  Floats::Store(padded, wide);
  __builtin_memcpy(to, padded, count * sizeof(float));
}

template <class Lane>
void CompressHalves(const CompressCall& call) {
  auto* to = static_cast<uint16_t*>(call.to);
  for (size_t at = 0; at < call.count; at += kFloats) {
    const size_t left = call.count - at;
    FloatVector wide = LoadSome(call.from + at, left);
    if (call.residual != nullptr) wide += LoadSome(call.residual + at, left);
    uint16_t halves[kFloats];
    Lane::Store(halves, wide);
    __builtin_memcpy(to + at, halves, (left < kFloats ? left : kFloats) * sizeof(uint16_t));
    if (call.residual != nullptr) StoreSome(call.residual + at, Finite(wide - Lane::Load(halves)), left);
  }
}

template <class Lane>
void DecompressHalves(const DecompressCall& call) {
  for (size_t at = 0; at < call.count; at += kFloats) {
    const size_t left = call.count - at;
    FloatVector sum{};
    for (size_t s = 0; s < call.sources_count; ++s) {
      uint16_t halves[kFloats] = {};
      const auto* from = static_cast<const uint16_t*>(call.sources[s]) + at;
      __builtin_memcpy(halves, from, (left < kFloats ? left : kFloats) * sizeof(uint16_t));
      const FloatVector wide = Lane::Load(halves);
      sum = s == 0 ? wide : sum + wide;
    }
    StoreSome(call.to + at, Divided<Floats>(sum, call.divisor), left);
  }
}

using Small = Vector<int8_t, kFloats>;
// Added and taken away, it leaves the nearest whole number, ties to even: beside it a float has no fraction.
constexpr float kWholeNumbers = 0x1.8p23F;
// Below it 127 / size would be infinite; such a block is all zeros.
constexpr float kSizeMin = 1e-35F;

inline float LargestOf(const CompressCall& call, size_t at, size_t count) {
  FloatVector most{};
  for (size_t i = 0; i < count; i += kFloats) {
    FloatVector wide = LoadSome(call.from + at + i, count - i);
    if (call.residual != nullptr) wide += LoadSome(call.residual + at + i, count - i);
    most = Max::Apply<float>(most, wide < 0 ? -wide : wide);
  }
  float largest = most[0];
  for (size_t lane = 1; lane < kFloats; ++lane) {
    largest = most[lane] > largest || most[lane] != most[lane] ? most[lane] : largest;
  }
  return largest;
}

inline void CompressInt8(const CompressCall& call) {
  auto* to = static_cast<uint8_t*>(call.to);
  for (size_t at = 0; at < call.count; at += kInt8Block) {
    const size_t count = call.count - at < kInt8Block ? call.count - at : kInt8Block;
    const float largest = LargestOf(call, at, count);
    const bool finite = largest - largest == 0;
    const bool zeros = finite && largest < kSizeMin;
    // Of a block that is not finite the scale is NaN, and so is what it decodes to.
    const float scale = zeros ? 0.0F : finite ? largest / 127.0F : __builtin_nanf("");
    const float by = zeros || !finite ? 0.0F : 127.0F / largest;
    __builtin_memcpy(to, &scale, sizeof(scale));
    to += sizeof(scale);
    for (size_t i = 0; i < count; i += kFloats) {
      const size_t left = count - i;
      FloatVector wide = LoadSome(call.from + at + i, left);
      if (call.residual != nullptr) wide += LoadSome(call.residual + at + i, left);
      FloatVector whole = (wide * by + kWholeNumbers) - kWholeNumbers;
      if (!finite) whole = FloatVector{};
      const Small small = __builtin_convertvector(__builtin_convertvector(whole, Vector<int32_t>), Small);
      __builtin_memcpy(to + i, &small, left < kFloats ? left : kFloats);
      if (call.residual != nullptr) StoreSome(call.residual + at + i, Finite(wide - whole * scale), left);
    }
    to += count;
  }
}

inline void DecompressInt8(const DecompressCall& call) {
  size_t offset = 0;
  for (size_t at = 0; at < call.count; at += kInt8Block) {
    const size_t count = call.count - at < kInt8Block ? call.count - at : kInt8Block;
    for (size_t i = 0; i < count; i += kFloats) {
      FloatVector sum{};
      for (size_t s = 0; s < call.sources_count; ++s) {
        const auto* block = static_cast<const uint8_t*>(call.sources[s]) + offset;
        float scale;
        Small small{};
        __builtin_memcpy(&scale, block, sizeof(scale));
        __builtin_memcpy(&small, block + sizeof(scale) + i, count - i < kFloats ? count - i : kFloats);
        const FloatVector wide =
            __builtin_convertvector(__builtin_convertvector(small, Vector<int32_t>), FloatVector) * scale;
        sum = s == 0 ? wide : sum + wide;
      }
      StoreSome(call.to + at + i, Divided<Floats>(sum, call.divisor), count - i);
    }
    offset += sizeof(float) + count;
  }
}

inline CompressKernels CompressHere() {
  return {{CompressHalves<Half>, CompressHalves<Bf16>, CompressInt8},
          {DecompressHalves<Half>, DecompressHalves<Bf16>, DecompressInt8}};
}

}  // namespace avx512, avx2 or base

}  // namespace collective
}  // namespace fusewire

#endif  // FUSEWIRE_COLLECTIVE_COMPRESSION_KERNELS_H_
