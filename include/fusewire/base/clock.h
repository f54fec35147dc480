// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Time that only goes forward: the real clock, or a clock that a test advances.
// Home: any thread for the real clock; a ManualClock belongs to the thread that advances it.
#pragma once

#include <cstdint>

namespace fusewire {

constexpr int64_t kMicrosecondNs = 1000;
constexpr int64_t kMillisecondNs = 1000 * 1000;
constexpr int64_t kSecondNs = 1000 * kMillisecondNs;
constexpr int64_t kForeverNs = INT64_MAX;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t NowNs() = 0;
  // The machine's monotonic clock; never destroyed.
  static Clock* Real();
};

// The time of Clock::Real() at the kernel's last tick, up to 10 ms ago. It takes an eighth of the time to read.
int64_t CoarseNowNs();

// A clock for tests and simulation: it stands still until it is advanced.
class ManualClock final : public Clock {
 public:
  int64_t NowNs() override { return now_ns_; }
  void Advance(int64_t by_ns) { now_ns_ += by_ns; }
  void Set(int64_t now_ns) { now_ns_ = now_ns; }

 private:
  int64_t now_ns_ = kSecondNs;  // not 0, as a time of 0 means "never"
};

// `now + delay` without overflow; kForeverNs stays kForeverNs.
int64_t AddNs(int64_t now_ns, int64_t delay_ns);

}  // namespace fusewire
