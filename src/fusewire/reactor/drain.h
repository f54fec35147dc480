// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Drain counts what is open at one home (calls, operations, messages), and says when all of it is done: the one
// "until nothing is left" of everything that closes.
// Home: one reactor; Wait from any thread but a home, open from any. Owns: the count.
// Fails: Wait with kTimeout, which says how many of what are still open.
// Invariants: the count is never below zero. What is opened while a thread waits is waited for, too. It outlives every
// wait: that is checked.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/base/metrics.h"
#include "fusewire/base/status.h"

namespace fusewire::reactor {

class Completion;
class Reactor;

class Drain {
 public:
  // `what` is counted, in the words of an error: "calls of client ps:0".
  explicit Drain(std::string what) : what_(std::move(what)) {}
  ~Drain() { FUSEWIRE_CHECK(waiting_.empty()); }
  Drain(const Drain&) = delete;
  Drain& operator=(const Drain&) = delete;

  // ---- at home ----
  void Open() { open_.Add(); }
  void Close() {
    FUSEWIRE_DCHECK(open() > 0);
    open_.Set(open() - 1);
    if (open() == 0 && !waiting_.empty()) TellAll();
  }
  bool empty() const { return open() == 0; }

  // Any thread.
  uint64_t open() const { return open_.Read(); }

  // Any thread but a home. Ok once nothing is open at `home`, which is turned meanwhile, as in Completion::Wait.
  Status Wait(Reactor& home, int64_t deadline_ns);

 private:
  void TellAll();
  Status StillOpen(int64_t waited_ns) const;

  const std::string what_;
  Counter open_;
  std::vector<Completion*> waiting_;  // at home; each lives in a Wait
};

}  // namespace fusewire::reactor
