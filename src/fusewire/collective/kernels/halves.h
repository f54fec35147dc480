// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Floats of 16 bits to f32 and back, one at a time: the reference for the vector kernels.
// Rounds to the nearest, ties to even; too large a value becomes infinite; a NaN stays a NaN, and is quiet.
#pragma once

#include <cstdint>

namespace fusewire::collective {

float HalfToFloat(uint16_t half);
uint16_t FloatToHalf(float value);
float Bf16ToFloat(uint16_t half);
uint16_t FloatToBf16(float value);

}  // namespace fusewire::collective
