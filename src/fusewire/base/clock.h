// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Time that only goes forward, real or turned by a test.
// Home: any thread for the real clock; a ManualClock belongs to the one thread that turns it. Fails: never.
#ifndef FUSEWIRE_BASE_CLOCK_H_
#define FUSEWIRE_BASE_CLOCK_H_

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
  // The machine's monotonic clock; lives for ever.
  static Clock* Real();
};

// A clock for tests and simulation: it stands still until it is turned.
class ManualClock final : public Clock {
 public:
  int64_t NowNs() override { return now_ns_; }
  void Advance(int64_t by_ns) { now_ns_ += by_ns; }
  void Set(int64_t now_ns) { now_ns_ = now_ns; }

 private:
  int64_t now_ns_ = kSecondNs;  // not 0: a zero time stays recognisable as "never"
};

// `now + delay` without running over; kForeverNs stays for ever.
int64_t AddNs(int64_t now_ns, int64_t delay_ns);

}  // namespace fusewire

#endif  // FUSEWIRE_BASE_CLOCK_H_
