// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/recall.h"

#include <algorithm>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"

namespace fusewire::pipe {
namespace {

// A period, in times of silent_ns_max. More than one: it may be a while before the peer hears of a recall.
constexpr int64_t kPeriodSilences = 3;
constexpr uint64_t kSlowestBytesPerS = 64 * 1024;
constexpr uint64_t kPeriodsMax = 240;
// If our own loop stood still, the peer is not to blame.
constexpr int64_t kLooksPerSilence = 4;

}  // namespace

Recall::Recall(int64_t silent_ns_max)
    : look_ns_max_(silent_ns_max / kLooksPerSilence), period_ns_(kPeriodSilences * silent_ns_max) {}

bool Recall::Look(uint64_t held_bytes, uint64_t moved_bytes, bool wanted, int64_t now_ns) {
  FUSEWIRE_DCHECK(looked_ns_ <= now_ns);
  const int64_t passed_ns = std::min(now_ns - std::exchange(looked_ns_, now_ns), look_ns_max_);
  if (!in_period_ || held_bytes == 0 || moved_bytes >= due_bytes_) {
    in_period_ = held_bytes > 0;
    due_bytes_ = moved_bytes + ShareOf(held_bytes);
    waited_ns_ = 0;
    return false;
  }
  // Time in which nobody waits does not count, and does not begin the period anew.
  if (wanted) waited_ns_ += passed_ns;
  return waited_ns_ >= period_ns_;
}

uint64_t Recall::ShareOf(uint64_t held_bytes) const {
  const uint64_t slowest = kSlowestBytesPerS * static_cast<uint64_t>(period_ns_ / kMillisecondNs) / 1000;
  return std::min(held_bytes, std::max(slowest, held_bytes / kPeriodsMax));
}

}  // namespace fusewire::pipe
