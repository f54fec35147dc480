// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Reads an input as a row of decisions; behind its end every one of them is 0.
// Home: the fuzz target's one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>

namespace fusewire {

class OpBytes {
 public:
  OpBytes(const uint8_t* data, size_t size) : data_(data), left_(size) {}
  bool empty() const { return left_ == 0; }
  uint8_t Next() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }
  uint64_t Word() {
    uint64_t word = 0;
    for (int i = 0; i < 8; ++i) word |= static_cast<uint64_t>(Next()) << 8 * i;
    return word;
  }
  template <class Choices>
  auto OneOf(const Choices& choices) {
    return *(std::begin(choices) + Next() % std::size(choices));
  }
  std::string Text(size_t bytes_max) {
    const size_t bytes = std::min(left_, bytes_max == 0 ? 0 : Next() % (bytes_max + 1));
    std::string text(reinterpret_cast<const char*>(data_), bytes);
    data_ += bytes;
    left_ -= bytes;
    return text;
  }

 private:
  const uint8_t* data_;
  size_t left_;
};

}  // namespace fusewire
