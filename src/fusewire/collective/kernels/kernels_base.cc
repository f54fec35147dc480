// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/kernels/kernels.h"

namespace fusewire::collective {
namespace {

uint32_t BitsOf(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
}

float FloatOf(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}

}  // namespace

float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = (half >> 10) & 0x1f;
  const uint32_t mantissa = half & 0x3ff;
  if (exponent == 0) return FloatOf(sign | BitsOf(static_cast<float>(mantissa) * 0x1p-24F));
  if (exponent == 31) return FloatOf(sign | 0x7f800000 | (mantissa << 13) | (mantissa != 0 ? 0x400000 : 0));
  return FloatOf(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

uint16_t FloatToHalf(float value) {
  const uint32_t bits = BitsOf(value);
  const uint32_t sign = (bits >> 16) & 0x8000;
  uint32_t size = bits & 0x7fffffff;
  if (size > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00 | ((size >> 13) & 0x1ff));
  if (size >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // from 65520 up the nearest is infinite
  if (size < 0x38800000) {  // below 2^-14; beside 0.5 a float's last bit is worth 2^-24, as a half's is here
    return static_cast<uint16_t>(sign | (BitsOf(FloatOf(size) + 0.5F) - BitsOf(0.5F)));
  }
  size += 0xfff + ((size >> 13) & 1);
  return static_cast<uint16_t>(sign | ((size - (112U << 23)) >> 13));
}

ReduceKernel FindBase(Op op, Type type) { return FindHere(op, type); }

}  // namespace fusewire::collective
