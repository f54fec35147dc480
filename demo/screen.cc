// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "screen.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "fusewire/base/clock.h"

namespace fusewire::demo {
namespace {

constexpr int64_t kDrawEveryNs = 100 * kMillisecondNs;
constexpr int kBarWidth = 24;

std::string Format(const char* format, double value, const char* unit) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value, unit);
  return text;
}

}  // namespace

Progress::Progress(std::string title) : title_(std::move(title)), terminal_(isatty(STDOUT_FILENO) != 0) {}

void Progress::Show(double fraction, const std::string& what) {
  if (!terminal_) return;
  int64_t now_ns = Clock::Real()->NowNs();
  if (now_ns < next_ns_) return;
  next_ns_ = now_ns + kDrawEveryNs;
  Draw(fraction, what, false);
}

void Progress::Finish(const std::string& what) { Draw(1.0, what, true); }

void Progress::Draw(double fraction, const std::string& what, bool last) {
  int filled = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * kBarWidth);
  std::string bar =
      std::string(static_cast<size_t>(filled), '#') + std::string(static_cast<size_t>(kBarWidth - filled), '.');
  std::printf("%s  %-34s [%s] %-40s%s", terminal_ ? "\r" : "", title_.c_str(), bar.c_str(), what.c_str(),
              last ? "\n" : "");
  std::fflush(stdout);
}

void PrintTable(const std::vector<Row>& rows) {
  std::printf("\n  %-44s %14s %14s %12s\n", "", "fusewire", "raw socket", "ratio");
  for (const Row& row : rows) {
    std::printf("  %-44s %14s %14s %12s\n", row.what.c_str(), row.ours.c_str(), row.raw.c_str(), row.ratio.c_str());
  }
  std::printf("\n");
}

std::string Micros(double seconds) { return Format("%.1f %s", seconds * 1e6, "us"); }

std::string Rate(double per_second, const char* unit) {
  const char* scale = "";
  for (const char* larger : {"k", "M", "G"}) {
    if (per_second < 1000) break;
    per_second /= 1000;
    scale = larger;
  }
  return Format("%.2f %s", per_second, (std::string(scale) + unit).c_str());
}

std::string Times(double ratio) { return Format("%.2f %s", ratio, "x"); }

}  // namespace fusewire::demo
