// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Callers: threads that hand something in on the spot, and threads that wait and run an idle loop meanwhile. See
// docs/threads.md.
// Home: any thread.
#pragma once

#include <cstdint>

#include "fusewire/base/mailbox.h"
#include "fusewire/base/metrics.h"
#include "fusewire/reactor/handover.h"
#include "fusewire/reactor/waiter.h"

namespace fusewire::reactor {

class Callers {
 public:
  explicit Callers(Handover& handover) : handover_(handover), loop_(handover.loop()) {}
  Callers(const Callers&) = delete;
  Callers& operator=(const Callers&) = delete;

  // As the functions of Reactor of these names.
  bool TryRunHere(Task& task);
  bool Wait(Waiter* waiter, int64_t deadline_ns, Idling idling, Interrupts interrupts);
  // As Run, if the loop is free: what was posted before comes first. False: it is not.
  bool TryRun(Task& task);
  // Comes home to wait there, if the loop gets free soon.
  bool TryTakeOver(const Waiter& waiter);
  // At home, after TryTakeOver: runs the loop until the signal, the deadline, an interrupt, the loop's end, or, after a
  // long time, the next caller, and leaves. False: an interrupt has ended the wait.
  bool DriveUntil(Waiter* waiter, int64_t deadline_ns, Idling idling, Interrupts interrupts);
  // While another thread runs the loop, or none does any more.
  bool AwaitSignal(Waiter* waiter, int64_t deadline_ns, Interrupts interrupts);
  uint64_t drives() const { return drives_.Read(); }

 private:
  // False: an interrupt has ended the sleep.
  bool ParkAtHome(Waiter* waiter, int64_t until_ns);

  Handover& handover_;
  Loop& loop_;
  Counter drives_;  // at home
};

}  // namespace fusewire::reactor
