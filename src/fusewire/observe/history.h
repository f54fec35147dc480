// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// /history.json: how far a process was, every two seconds of the last five minutes, for the curves of its page.
// Home: the port's thread. Owns: the samples. Fails: never.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "fusewire/base/clock.h"
#include "fusewire/observe/recorder.h"
#include "fusewire/observe/status_page.h"

namespace fusewire::observe {

class History {
 public:
  static constexpr int64_t kEveryNs = 2 * kSecondNs;
  static constexpr size_t kSamplesMax = 150;

  void Add(Recorder& recorder, const std::vector<Number>& numbers, int64_t now_ns);
  std::string Json() const;

 private:
  // Totals since recording began.
  struct Sample {
    int64_t now_ns = 0;
    uint64_t steps = 0;  // of a rank: its collective operations
    uint64_t bytes_in = 0, bytes_out = 0;
  };
  std::deque<Sample> samples_;
};

}  // namespace fusewire::observe
