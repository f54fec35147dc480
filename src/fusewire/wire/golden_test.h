// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// For tests: bytes as hex, in the format of docs/wire.md, and a search in that page.
// Home: none. Fails: never; a page that can't be read is empty.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "fusewire/base/bytes.h"

namespace fusewire::wire {

// Rows of 40 bytes in groups of four: "46570200 02010300 ...\n4657...".
inline std::string Draw(ConstBytes bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < bytes.size; ++i) {
    if (i > 0 && i % 4 == 0) text += i % 40 == 0 ? '\n' : ' ';
    text += kDigits[bytes.data[i] >> 4];
    text += kDigits[bytes.data[i] & 15];
  }
  return text;
}

// The reverse; any other character is a separator.
inline std::string Undraw(const std::string& text) {
  std::string digits;
  for (char c : text) {
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')) digits += c;
  }
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

// Whether docs/wire.md contains these bytes, row by row.
inline bool IsDrawnInTheLaw(const std::string& drawing) {
  const auto root = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path().parent_path();
  std::ifstream file(root / "docs" / "wire.md", std::ios::binary);
  const std::string law{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  for (size_t from = 0; from < drawing.size();) {
    const size_t to = std::min(drawing.find('\n', from), drawing.size());
    if (law.find(drawing.substr(from, to - from) + "\n") == std::string::npos) return false;
    from = to + 1;
  }
  return !drawing.empty();
}

}  // namespace fusewire::wire
