// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Small numbers in few bytes: seven bits a byte, the lowest first. The encoding of the heads of tensors.
// Home: none. Fails: a VarReader that runs out of bytes yields zeros from then on, and ok() is false.
#pragma once

#include <cstdint>
#include <string>

#include "fusewire/base/bytes.h"
#include "fusewire/wire/coder.h"

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

inline void AppendFixed64(std::string* out, uint64_t value) { wire::Append(out, value); }

class VarReader : public wire::Reader {
 public:
  using Reader::Reader;

  bool done() const { return left().empty(); }

  uint8_t Byte() { return Number<uint8_t>(); }
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
  uint64_t Fixed64() { return Number<uint64_t>(); }
  ConstBytes Text() { return Take(Varint()); }
};

}  // namespace fusewire::tf
