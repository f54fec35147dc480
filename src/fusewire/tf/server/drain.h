// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The process as a whole: its number, and its end. One that is told to end (SIGTERM) first gives its tasks to others:
// docs/elastic.md#moving. Home: any thread. Owns: a thread, until the process ends. Fails: never; where tasks stay, the
// signal does what it would have done.
#pragma once

#include <cstdint>
#include <functional>

#include "fusewire/tf/bridge/compat.h"

namespace fusewire::tf {

// The same in all servers of this process, and in no other process.
uint64_t ProcessId();

// Once a process; later calls change nothing. `drain` is called on a thread of its own, and has so long.
void DrainBeforeTheEnd(int64_t limit_ns, std::function<TfStatus()> drain);
// It has been told to end, or gives its tasks away: it takes none.
bool IsDraining();
class Draining {
 public:
  Draining();
  ~Draining();
  Draining(const Draining&) = delete;
};

}  // namespace fusewire::tf
