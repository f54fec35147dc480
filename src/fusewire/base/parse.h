// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Reads text that others wrote: users, peers, the kernel.
// Home: any thread. Fails: with false.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <system_error>

namespace fusewire {

// All of `text` is a decimal number that fits: without spaces or a plus sign, without a minus sign if unsigned.
template <class Number>
bool ParseNumber(std::string_view text, Number* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

// When the process that a /proc/PID/stat describes began, in clock ticks since the machine's start.
inline bool ParseStart(std::string_view stat, uint64_t* start) {
  constexpr int kStartField = 22;  // see proc(5)
  // pid (name) state ppid ...: the name may contain anything.
  size_t at = stat.rfind(')');
  for (int field = 2; field < kStartField && at != std::string_view::npos; ++field) at = stat.find(' ', at + 1);
  if (at == std::string_view::npos) return false;
  return std::from_chars(stat.data() + at + 1, stat.data() + stat.size(), *start).ec == std::errc();
}

}  // namespace fusewire
