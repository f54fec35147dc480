// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The demo's output: a progress line, and a table at the end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fusewire::demo {

// One line per part; on a terminal it is redrawn with the progress.
class Progress {
 public:
  explicit Progress(std::string title);
  // Cheap; draws at most ten times a second. `fraction` of the part that is done.
  void Show(double fraction, const std::string& what);
  void Finish(const std::string& what);

 private:
  void Draw(double fraction, const std::string& what, bool last);
  const std::string title_;
  const bool terminal_;
  int64_t next_ns_ = 0;
};

struct Row {
  std::string what;
  std::string ours;
  std::string raw;
  std::string ratio;  // more than 1: ours is better
};
void PrintTable(const std::vector<Row>& rows);

// "12.3 us", "3.41 GB/s", "1.75 M/s".
std::string Micros(double seconds);
std::string Rate(double per_second, const char* unit);
std::string Times(double ratio);

}  // namespace fusewire::demo
