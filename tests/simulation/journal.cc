// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "journal.h"

#include <cinttypes>
#include <cstdio>

#include "fusewire/base/random.h"

namespace fusewire::simulation {
namespace {

constexpr size_t kFindingsMax = 50;  // one fault often has many faces

std::string Format(const char* format, va_list arguments) {
  char text[1024];
  vsnprintf(text, sizeof(text), format, arguments);
  return text;
}

}  // namespace

void Journal::Note(uint64_t fact) { sum_ = Random(sum_ ^ fact).Next(); }

void Journal::Line(const std::string& text) {
  int64_t now_ns = clock_ == nullptr ? 0 : clock_->NowNs();
  Note(static_cast<uint64_t>(now_ns));
  for (char letter : text) sum_ = (sum_ ^ static_cast<uint8_t>(letter)) * 0x100000001b3ULL;
  if (print_) std::printf("%13.6f ms  %s\n", static_cast<double>(now_ns) / kMillisecondNs, text.c_str());
}

void Journal::Say(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Line(Format(format, arguments));
  va_end(arguments);
}

void Journal::Find(const char* kind, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string text = Format(format, arguments);
  va_end(arguments);
  Line("FINDING " + std::string(kind) + ": " + text);
  if (findings_.size() < kFindingsMax) findings_.push_back({kind, std::move(text)});
}

}  // namespace fusewire::simulation
