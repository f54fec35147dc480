// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Which kernels are taken; and the reference, one element at a time.
#include "fusewire/collective/compression.h"

#include <algorithm>
#include <cmath>

#include "fusewire/base/check.h"
#include "fusewire/collective/halves.h"
#include "fusewire/collective/levels.h"

namespace fusewire {
namespace collective {
namespace {

constexpr float kSizeMin = 1e-35F;  // below it 127 / size would be infinite; such a block is all zeros

template <class T>
T LoadAt(const void* from, size_t at) {
  T value;
  __builtin_memcpy(&value, static_cast<const uint8_t*>(from) + at, sizeof(value));
  return value;
}
template <class T>
void StoreAt(void* to, size_t at, T value) {
  __builtin_memcpy(static_cast<uint8_t*>(to) + at, &value, sizeof(value));
}

float Wanted(const CompressCall& call, size_t i) {
  return call.residual == nullptr ? call.from[i] : call.from[i] + call.residual[i];
}
void KeepLost(const CompressCall& call, size_t i, float lost) {
  if (call.residual != nullptr) call.residual[i] = std::isfinite(lost) ? lost : 0.0F;
}

template <uint16_t (*encode)(float), float (*decode)(uint16_t)>
void CompressHalves(const CompressCall& call) {
  for (size_t i = 0; i < call.count; ++i) {
    const float wanted = Wanted(call, i);
    const uint16_t half = encode(wanted);
    StoreAt(call.to, i * sizeof(half), half);
    KeepLost(call, i, wanted - decode(half));
  }
}

template <float (*decode)(uint16_t)>
void DecompressHalves(const DecompressCall& call) {
  for (size_t i = 0; i < call.count; ++i) {
    float sum = decode(LoadAt<uint16_t>(call.sources[0], 2 * i));
    for (size_t s = 1; s < call.sources_count; ++s) sum += decode(LoadAt<uint16_t>(call.sources[s], 2 * i));
    call.to[i] = call.divisor == 1 ? sum : sum / static_cast<float>(call.divisor);
  }
}

void CompressInt8(const CompressCall& call) {
  size_t to = 0;
  for (size_t at = 0; at < call.count; at += kInt8Block) {
    const size_t end = std::min(at + kInt8Block, call.count);
    float largest = 0;
    for (size_t i = at; i < end; ++i) {
      const float size = std::fabs(Wanted(call, i));
      if (size > largest || std::isnan(size)) largest = size;
    }
    const bool finite = std::isfinite(largest);
    const bool zeros = finite && largest < kSizeMin;
    const float scale = zeros ? 0.0F : finite ? largest / 127.0F : NAN;
    const float by = zeros || !finite ? 0.0F : 127.0F / largest;
    StoreAt(call.to, to, scale);
    to += sizeof(scale);
    for (size_t i = at; i < end; ++i, ++to) {
      const float wanted = Wanted(call, i);
      const float whole = finite ? std::nearbyint(wanted * by) : 0.0F;
      StoreAt(call.to, to, static_cast<int8_t>(whole));
      KeepLost(call, i, wanted - whole * scale);
    }
  }
}

void DecompressInt8(const DecompressCall& call) {
  for (size_t i = 0; i < call.count; ++i) {
    const size_t block = i / kInt8Block * (kInt8Block + sizeof(float));
    const size_t at = block + sizeof(float) + i % kInt8Block;
    float sum = 0;
    for (size_t s = 0; s < call.sources_count; ++s) {
      const float value =
          static_cast<float>(LoadAt<int8_t>(call.sources[s], at)) * LoadAt<float>(call.sources[s], block);
      sum = s == 0 ? value : sum + value;
    }
    call.to[i] = call.divisor == 1 ? sum : sum / static_cast<float>(call.divisor);
  }
}

CompressKernels KernelsOf(Level level) {
  switch (level) {
    case Level::kScalar: return CompressScalar();
    case Level::kBase: return CompressBase();
    case Level::kAvx2: return CompressAvx2();
    case Level::kAvx512: return CompressAvx512();
  }
  return {};
}

}  // namespace

CompressKernels CompressScalar() {
  return {{CompressHalves<FloatToHalf, HalfToFloat>, CompressHalves<FloatToBf16, Bf16ToFloat>, CompressInt8},
          {DecompressHalves<HalfToFloat>, DecompressHalves<Bf16ToFloat>, DecompressInt8}};
}

size_t CompressedBytes(Compression compression, size_t count) {
  if (compression != Compression::kInt8) return 2 * count;
  return count + (count + kInt8Block - 1) / kInt8Block * sizeof(float);
}

void Compress(Compression compression, const CompressCall& call, Level level) {
  KernelsOf(level).compress[static_cast<size_t>(compression)](call);
}

void DecompressSum(Compression compression, const DecompressCall& call, Level level) {
  FUSEWIRE_DCHECK(call.sources_count > 0);
  KernelsOf(level).decompress[static_cast<size_t>(compression)](call);
}

}  // namespace collective
}  // namespace fusewire
