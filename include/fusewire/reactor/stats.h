// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The counters of a reactor.
#pragma once

#include <cstdint>

namespace fusewire::reactor {

struct Stats {
  uint64_t turns = 0;        // of the loop
  uint64_t parks = 0;        // waits in the kernel
  uint64_t spin_hits = 0;    // spins that saved a park
  uint64_t spin_misses = 0;  // spins that caught nothing
  uint64_t wakes = 0;        // system calls to wake a parked loop
  uint64_t mails = 0;
  uint64_t drives = 0;  // turns taken over by waiting callers
  uint64_t watched = 0;
};

}  // namespace fusewire::reactor
