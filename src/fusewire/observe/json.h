// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Writes JSON: pure functions and a small writer.
// Home: the caller's thread. Fails: never; any bytes become a valid text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fusewire::observe {

// Quoted. A byte that is not printable ASCII becomes \u00XX.
inline void AppendJsonText(std::string_view text, std::string* out) {
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

// Objects and arrays, with commas where they belong.
class JsonWriter {
 public:
  explicit JsonWriter(std::string* out) : out_(out) {}

  JsonWriter& Key(std::string_view name) {
    Comma();
    AppendJsonText(name, out_);
    *out_ += ':';
    is_first_ = true;
    return *this;
  }
  void Open(char bracket) {
    Comma();
    *out_ += bracket;
    is_first_ = true;
  }
  void Close(char bracket) {
    *out_ += bracket;
    is_first_ = false;
  }
  // An array with an object for each of `all`, of which `write` writes the keys and values.
  template <class All, class Write>
  void Objects(const All& all, Write write) {
    Open('[');
    for (const auto& one : all) {
      Open('{');
      write(one);
      Close('}');
    }
    Close(']');
  }
  void Text(std::string_view text) {
    Comma();
    AppendJsonText(text, out_);
  }
  void Number(uint64_t number) { Raw(std::to_string(number)); }
  void Signed(int64_t number) { Raw(std::to_string(number)); }
  void Bool(bool value) { Raw(value ? "true" : "false"); }
  // A value that is already JSON.
  void Raw(std::string_view json) {
    Comma();
    *out_ += json;
  }

 private:
  void Comma() {
    if (!is_first_) *out_ += ',';
    is_first_ = false;
  }
  std::string* const out_;
  bool is_first_ = true;
};

}  // namespace fusewire::observe
