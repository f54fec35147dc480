// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/heartbeat.h"

#include <algorithm>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"

namespace fusewire::pipe {

int64_t Heartbeat::SecondLookNs() { return 50 * kMillisecondNs; }

std::optional<int64_t> Heartbeat::OnPong(uint64_t call, int64_t now_ns) {
  if (pinged_ns_ == 0 || call != static_cast<uint64_t>(pinged_ns_)) return std::nullopt;
  FUSEWIRE_DCHECK(pinged_ns_ <= now_ns);
  return now_ns - std::exchange(pinged_ns_, 0);
}

Heartbeat::Peer Heartbeat::Look(int64_t now_ns) {
  FUSEWIRE_DCHECK(heard_ns_ <= now_ns);
  if (silent_ns(now_ns) < silent_ns_max_) return Peer::kHeard;
  return std::exchange(suspect_, true) ? Peer::kSilent : Peer::kSuspect;
}

std::optional<uint64_t> Heartbeat::Ping(int64_t now_ns, int64_t wrote_ns) {
  FUSEWIRE_DCHECK(wrote_ns <= now_ns);
  if (now_ns - wrote_ns < PeriodNs() / 2 && silent_ns(now_ns) < PeriodNs()) return std::nullopt;
  if (pinged_ns_ == 0) pinged_ns_ = now_ns;
  return static_cast<uint64_t>(pinged_ns_);
}

bool Heartbeat::IsIdle(uint64_t messages) {
  FUSEWIRE_DCHECK(messages_at_look_ <= messages);
  return std::exchange(messages_at_look_, messages) == messages;
}

int64_t Heartbeat::NextLookNs(int64_t now_ns) const {
  return std::min(PeriodNs(), std::max<int64_t>(silent_ns_max_ - silent_ns(now_ns), kMillisecondNs));
}

}  // namespace fusewire::pipe
