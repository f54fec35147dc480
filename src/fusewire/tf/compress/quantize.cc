// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/compress/quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <absl/base/casts.h>

namespace fusewire::tf {

namespace {

constexpr float kLargest = 127.0F;

// To the nearest, as the processor does by default. Compilers turn this into vector instructions, but not lrintf.
int8_t Rounded(float value) {
  constexpr float kNoFraction = 12582912.0F;  // 1.5 * 2^23: a float of this size has no bits behind the point
  return static_cast<int8_t>(static_cast<int32_t>((value + kNoFraction) - kNoFraction));
}

void PutScale(float scale, int8_t* out) {
  const auto bits = absl::bit_cast<uint32_t>(scale);
  for (size_t i = 0; i < kScaleBytes; ++i) out[i] = static_cast<int8_t>(bits >> (8 * i));
}

float ScaleAt(const int8_t* from) {
  uint32_t bits = 0;
  for (size_t i = 0; i < kScaleBytes; ++i) bits |= uint32_t{static_cast<uint8_t>(from[i])} << (8 * i);
  return absl::bit_cast<float>(bits);
}

}  // namespace

void QuantizeRow(const float* row, size_t n, int8_t* out) {
  float largest = 0.0F;
  float sum = 0.0F;  // NaN if one of them is not finite
  for (size_t i = 0; i < n; ++i) {
    largest = std::max(largest, std::fabs(row[i]));
    sum += row[i] * 0.0F;
  }
  float scale = largest / kLargest;
  const float inverse = 1.0F / scale;
  if (std::isnan(sum)) {
    scale = std::numeric_limits<float>::quiet_NaN();
    std::fill(out, out + n, int8_t{0});
  } else if (std::isfinite(inverse)) {
    for (size_t i = 0; i < n; ++i) out[i] = Rounded(row[i] * inverse);
  } else {  // so small that the scale is 0, or has no inverse and few bits
    for (size_t i = 0; i < n; ++i)
      out[i] = scale > 0.0F ? Rounded(std::clamp(row[i] / scale, -kLargest, kLargest)) : int8_t{0};
  }
  PutScale(scale, out + n);
}

void RestoreRow(const int8_t* quantized, size_t n, float* row) {
  const float scale = ScaleAt(quantized + n);
  for (size_t i = 0; i < n; ++i) row[i] = static_cast<float>(quantized[i]) * scale;
}

float* Residuals::Find(int64_t id, size_t n) {
  if (n != length_) {
    places_.clear();
    kept_.clear();
    length_ = n;
  }
  auto found = places_.find(id);
  if (found == places_.end()) {
    if ((kept_.size() + n) * sizeof(float) > bytes_max_) return nullptr;
    found = places_.emplace(id, kept_.size()).first;
    kept_.resize(kept_.size() + n, 0.0F);
  }
  return kept_.data() + found->second;
}

void Residuals::Quantize(int64_t id, const float* row, size_t n, float* scratch, int8_t* out) {
  float* kept = Find(id, n);
  if (kept == nullptr) return QuantizeRow(row, n, out);
  for (size_t i = 0; i < n; ++i) kept[i] += row[i];
  QuantizeRow(kept, n, out);
  RestoreRow(out, n, scratch);
  for (size_t i = 0; i < n; ++i) kept[i] -= scratch[i];
  // A gradient that is not finite is sent as it is, and forgotten.
  if (!std::isfinite(scratch[0])) std::fill(kept, kept + n, 0.0F);
}

}  // namespace fusewire::tf
