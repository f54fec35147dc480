// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Arrays of f32 made smaller for the wire, and added up straight from there.
//   f16, bf16  2 bytes an element, rounded to the nearest
//   int8       blocks of 256 elements: scale:f32 element:i8*256 (the last block is shorter); an element is i8 * scale
// What is lost stays with the sender: the residual is added before the next time (error feedback).
// Infinite and NaN: f16 and bf16 keep them (f16 makes more: from 65520 up); a block of int8 that has one decodes to NaN
// as a whole. A residual that would not be finite is 0. Home: any thread, pure functions. Owns: nothing. Fails: never;
// all levels give the same bits but for the payload of NaN.
#ifndef FUSEWIRE_COLLECTIVE_COMPRESSION_H_
#define FUSEWIRE_COLLECTIVE_COMPRESSION_H_

#include <cstddef>
#include <cstdint>

#include "fusewire/collective/arithmetic.h"

namespace fusewire {
namespace collective {

enum class Compression : uint8_t { kF16 = 0, kBf16 = 1, kInt8 = 2 };
constexpr uint8_t kCompressions = 3;
constexpr size_t kInt8Block = 256;

size_t CompressedBytes(Compression compression, size_t count);

// `residual` is null, or has `count` elements that are added before, and hold afterwards what was lost.
struct CompressCall {
  void* to = nullptr;
  const float* from = nullptr;
  float* residual = nullptr;
  size_t count = 0;
};

// to[i] = (source 0 + source 1) + ..., each decoded on the way; divided by `divisor` unless it is 1. One pass.
struct DecompressCall {
  float* to = nullptr;
  const void* const* sources = nullptr;
  size_t sources_count = 0;
  size_t count = 0;
  uint64_t divisor = 1;
};

void Compress(Compression compression, const CompressCall& call, Level level = BestLevel());
void DecompressSum(Compression compression, const DecompressCall& call, Level level = BestLevel());

}  // namespace collective
}  // namespace fusewire

#endif  // FUSEWIRE_COLLECTIVE_COMPRESSION_H_
