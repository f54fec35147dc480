// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Rows of floats in 8 bits: each row has a scale of its own, so that its largest value becomes 127 or -127. A row of n
// floats becomes n + 4 bytes: the values, then the scale. A row with a value that is not finite becomes NaN as a whole.
// Home: any thread. Fails: never.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace fusewire::tf {

constexpr size_t kScaleBytes = sizeof(float);

// `row` has n floats, `out` n + kScaleBytes bytes.
void QuantizeRow(const float* row, size_t n, int8_t* out);
void RestoreRow(const int8_t* quantized, size_t n, float* row);

// What rounding has taken from the rows of a table's gradients so far, by the row's id: it is added to the next
// gradient of the row, so that nothing is lost in the long run. Home: one thread. Owns: its rows, up to kBytesMax; the
// rows that come later are rounded without it.
class Residuals {
 public:
  static constexpr size_t kBytesMax = 256 << 20;
  explicit Residuals(size_t bytes_max = kBytesMax) : bytes_max_(bytes_max) {}

  // As QuantizeRow(); `scratch` has n floats. All rows are of one length; with another one, this begins anew.
  void Quantize(int64_t id, const float* row, size_t n, float* scratch, int8_t* out);
  size_t rows() const { return places_.size(); }

 private:
  float* Find(int64_t id, size_t n);  // null: there is no room

  const size_t bytes_max_;
  size_t length_ = 0;
  std::unordered_map<int64_t, size_t> places_;  // in kept_
  std::vector<float> kept_;
};

}  // namespace fusewire::tf
