// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/base/clock.h"

#include <ctime>

namespace fusewire {
namespace {

int64_t NowNsOf(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<int64_t>(now.tv_sec) * kSecondNs + now.tv_nsec;
}

class RealClock final : public Clock {
 public:
  int64_t NowNs() override { return NowNsOf(CLOCK_MONOTONIC); }
};

}  // namespace

Clock* Clock::Real() {
  static RealClock* const clock = new RealClock;  // never destroyed: threads may still ask while the process ends
  return clock;
}

int64_t CoarseNowNs() { return NowNsOf(CLOCK_MONOTONIC_COARSE); }

int64_t AddNs(int64_t now_ns, int64_t delay_ns) {
  return delay_ns > kForeverNs - now_ns ? kForeverNs : now_ns + delay_ns;
}

}  // namespace fusewire
