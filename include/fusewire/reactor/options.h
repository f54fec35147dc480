// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The options of one reactor, of a pool of them, and of a wait.
#pragma once

#include <cstdint>
#include <string>

#include "fusewire/base/clock.h"

namespace fusewire::reactor {

struct Options {
  std::string name = "fusewire";
  // Never park: lowest latency, one processor spent.
  bool busy_poll = false;
  // How long to spin before parking, at most; the loop learns whether spinning pays. A caller waiting for an answer may
  // spin four times as long while processors are idle. 0: park at once.
  int64_t spin_ns_max = 50 * kMicrosecondNs;
  // The processor to pin the reactor's thread to, or -1. Where pinning is not allowed, a log line says so and all goes
  // on.
  int cpu = -1;
};

struct PoolOptions {
  std::string name = "fusewire";
  // 0: half of the usable processors, between 1 and 4.
  int reactors = 0;
  bool busy_poll = false;
  int64_t spin_ns_max = Options().spin_ns_max;
  // Pin each reactor to a processor of its own, from the last allowed one down; more reactors than processors: no
  // pinning.
  bool pin = false;
};

// Whether a signal (SIGINT) whose handler runs on the waiting thread ends the wait, as a deadline does: an interpreter
// runs its own handlers only after the wait has returned.
enum class Interrupts { kGoOn, kEndWait };

}  // namespace fusewire::reactor
