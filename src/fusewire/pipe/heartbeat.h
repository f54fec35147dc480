// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Whether the peer is alive: when it last sent something, when it is pinged, when it has been silent for too long.
// Pure: no timer, no clock; every call is given the time.
// Home: the pipe's. Owns: times. Fails: never; Look says what it sees.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"

namespace fusewire::pipe {

class Heartbeat {
 public:
  enum class Peer {
    kHeard,
    kSuspect,  // silent for too long; perhaps it was our own loop that stood still: look again at once
    kSilent,   // and still is
  };

  Heartbeat(int64_t silent_ns_max, int64_t now_ns) : silent_ns_max_(silent_ns_max), heard_ns_(now_ns) {}

  // The peer has sent something.
  void OnHeard(int64_t now_ns) {
    heard_ns_ = now_ns;
    suspect_ = false;
  }
  // It answers a ping: how long that took; nothing, if it is not the ping that waits for its answer.
  std::optional<int64_t> OnPong(uint64_t call, int64_t now_ns) {
    if (pinged_ns_ == 0 || call != static_cast<uint64_t>(pinged_ns_)) return std::nullopt;
    FUSEWIRE_DCHECK(pinged_ns_ <= now_ns);
    return now_ns - std::exchange(pinged_ns_, 0);
  }

  Peer Look(int64_t now_ns) {
    FUSEWIRE_DCHECK(heard_ns_ <= now_ns);
    if (silent_ns(now_ns) < silent_ns_max_) return Peer::kHeard;
    return std::exchange(suspect_, true) ? Peer::kSilent : Peer::kSuspect;
  }
  // For a ping that is due: what the answer will repeat. `wrote_ns`: when we last wrote anything.
  std::optional<uint64_t> Ping(int64_t now_ns, int64_t wrote_ns) {
    FUSEWIRE_DCHECK(wrote_ns <= now_ns);
    if (now_ns - wrote_ns < PeriodNs() / 2 && silent_ns(now_ns) < PeriodNs()) return std::nullopt;
    if (pinged_ns_ == 0) pinged_ns_ = now_ns;
    return static_cast<uint64_t>(pinged_ns_);
  }
  // How many messages have come and gone in all: whether that is what it was the last time.
  bool IsIdle(uint64_t messages) {
    FUSEWIRE_DCHECK(messages_at_look_ <= messages);
    return std::exchange(messages_at_look_, messages) == messages;
  }
  int64_t silent_ns(int64_t now_ns) const { return now_ns - heard_ns_; }
  // When to look first, when to look next, and when to look again at a suspect.
  int64_t PeriodNs() const { return silent_ns_max_ / 4; }
  int64_t NextLookNs(int64_t now_ns) const {
    return std::min(PeriodNs(), std::max<int64_t>(silent_ns_max_ - silent_ns(now_ns), kMillisecondNs));
  }
  static int64_t SecondLookNs() { return 50 * kMillisecondNs; }

 private:
  const int64_t silent_ns_max_;
  int64_t heard_ns_;
  bool suspect_ = false;
  int64_t pinged_ns_ = 0;          // when the ping that waits for its answer was first sent, or 0
  uint64_t messages_at_look_ = 0;  // in and out
};

}  // namespace fusewire::pipe
