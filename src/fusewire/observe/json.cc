// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/json.h"

namespace fusewire::observe {

void AppendJsonText(std::string_view text, std::string* out) {
  constexpr char kDigits[] = "0123456789abcdef";
  *out += '"';
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      *out += '\\';
      *out += letter;
    } else if (byte < 0x20 || byte >= 0x7f) {
      *out += "\\u00";
      *out += kDigits[byte >> 4];
      *out += kDigits[byte & 15];
    } else {
      *out += letter;
    }
  }
  *out += '"';
}

}  // namespace fusewire::observe
