// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Whether a peer uses what it holds of our budget while others wait for it. Only bytes of messages, and credit that is
// given back, are use: whatever else a peer sends moves nothing. Pure: no timer, no clock; every call is told the time.
// Home: the pipe's. Owns: numbers. Fails: never; Look says what it sees.
//   in each period in which others wait, the peer must move a share of what it held when the period began:
//   share = all of it; at most 64 KiB a second, or a 240th if that is more
// An honest peer answers a recall at once: it gives back what its next message does not need, or begins that message.
// From then on only the network bounds it, and 16 such peers may share one of 1 MB/s.
#pragma once

#include <cstdint>

namespace fusewire::pipe {

class Recall {
 public:
  explicit Recall(int64_t silent_ns_max);

  // Every now and then. `held_bytes`: what the peer has of the budget now, as credit or as the rest of a body that it
  // has begun; `moved_bytes`: the sum of what it has sent and given back, ever; `wanted`: others wait. True: its time
  // is over.
  bool Look(uint64_t held_bytes, uint64_t moved_bytes, bool wanted, int64_t now_ns);
  // For how long others have waited in this period.
  int64_t waited_ns() const { return waited_ns_; }

 private:
  uint64_t ShareOf(uint64_t held_bytes) const;

  const int64_t look_ns_max_;
  const int64_t period_ns_;
  bool in_period_ = false;
  uint64_t due_bytes_ = 0;  // where `moved_bytes` has to be at the end of the period
  int64_t waited_ns_ = 0;
  int64_t looked_ns_ = 0;
};

}  // namespace fusewire::pipe
