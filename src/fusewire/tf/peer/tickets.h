// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The caller's end of runs that come once, even if they are sent twice: the numbers of one client's runs at one
// parameter server, and when a call over a lost connection is made again.
// Home: any thread. Owns: the numbers of open runs. Fails: never.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "fusewire/base/mutex.h"
#include "fusewire/base/status.h"
#include "fusewire/tf/heads/calls.h"

namespace fusewire::tf {

class Channel;

class TicketBook {
 public:
  TicketBook();
  Ticket Take();
  // Its run has ended, whatever its end.
  void GiveBack(const Ticket& ticket);

 private:
  const uint64_t client_;
  Mutex mutex_;
  uint64_t last_ FUSEWIRE_GUARDED_BY(mutex_) = 0;
  std::vector<uint64_t> open_ FUSEWIRE_GUARDED_BY(mutex_);  // in order
};
// shared_ptr: a call may end after its peer's end.
using TicketBookPtr = std::shared_ptr<TicketBook>;

// Of one call: whether it is made again, over the same channel, which then dials anew. It goes on for as long as the
// channel allows, counted from the lost peer's last sign of life. Another process at that address, or none, ends it.
// Home: the call's. Owns: plain values.
class Repeats {
 public:
  // Before each attempt.
  void Begin(const Channel& channel);
  // The attempt has ended with `status`. If not again, the error of the first attempt is the one to report.
  bool IsAgain(const Channel& channel, Status* status);

 private:
  uint64_t losses_ = 0;      // of the channel, when the attempt began
  int64_t deadline_ns_ = 0;  // 0: no connection has been lost yet
  Status first_;
};

}  // namespace fusewire::tf
