// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The events of a run, line by line, and its errors. Every line goes into a sum: two runs of one seed
// must come to the same sum.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/clock.h"

namespace fusewire::simulation {

struct Finding {
  std::string kind;  // "wrong-bytes": what a canary expects
  std::string text;
};

class Journal {
 public:
  // `print`: every line also goes to stdout.
  explicit Journal(bool print) : print_(print) {}
  void set_clock(Clock* clock) { clock_ = clock; }

  void Say(const char* format, ...) __attribute__((format(printf, 2, 3)));
  void Find(const char* kind, const char* format, ...) __attribute__((format(printf, 3, 4)));
  // Adds a number to the sum, without a line.
  void Note(uint64_t fact);

  uint64_t sum() const { return sum_; }
  const std::vector<Finding>& findings() const { return findings_; }

 private:
  void Line(const std::string& text);

  const bool print_;
  Clock* clock_ = nullptr;
  uint64_t sum_ = 0;
  std::vector<Finding> findings_;
};

}  // namespace fusewire::simulation
