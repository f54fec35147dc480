// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Small numbers in few bytes: seven bits a byte, the lowest first. The encoding of the heads of tensors.
// Home: none. Fails: a VarReader that runs out of bytes yields zeros from then on, and ok() is false.
#pragma once

#include <cstdint>
#include <string>

#include "fusewire/base/bytes.h"

namespace fusewire::tf {

inline void AppendVarint(std::string* out, uint64_t value) {
  while (value >= 0x80) {
    out->push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out->push_back(static_cast<char>(value));
}

// text := bytes:varint u8[bytes]
inline void AppendText(std::string* out, const char* text, size_t size) {
  AppendVarint(out, size);
  out->append(text, size);
}
inline void AppendText(std::string* out, const std::string& text) { AppendText(out, text.data(), text.size()); }

inline void AppendFixed64(std::string* out, uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) out->push_back(static_cast<char>(value >> shift));
}

class VarReader {
 public:
  explicit VarReader(ConstBytes in) : left_(in) {}

  bool ok() const { return ok_; }
  bool done() const { return left_.empty(); }
  ConstBytes left() const { return left_; }

  uint8_t Byte() {
    ConstBytes taken = Take(1);
    return taken.empty() ? 0 : taken.data[0];
  }
  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      uint8_t byte = Byte();
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    Fail();
    return 0;
  }
  uint64_t Fixed64() {
    ConstBytes taken = Take(8);
    uint64_t value = 0;
    for (size_t i = taken.size; i > 0; --i) value = value << 8 | taken.data[i - 1];
    return value;
  }
  ConstBytes Take(uint64_t size) {
    if (size > left_.size) {
      Fail();
      return ConstBytes();
    }
    ConstBytes taken = left_.Sub(0, static_cast<size_t>(size));
    left_ = left_.From(static_cast<size_t>(size));
    return taken;
  }
  ConstBytes Text() { return Take(Varint()); }

 private:
  void Fail() {
    ok_ = false;
    left_ = ConstBytes();
  }
  ConstBytes left_;
  bool ok_ = true;
};

}  // namespace fusewire::tf
