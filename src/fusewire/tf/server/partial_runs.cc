// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/partial_runs.h"

#include <iterator>

namespace fusewire::tf {

void PartialRuns::Keep(int64_t step, int64_t now_ns) {
  MutexLock lock(mutex_);
  has_had_any_ = true;
  last_call_ns_[step] = now_ns;
}

void PartialRuns::Drop(int64_t step) {
  if (!has_had_any_.load(std::memory_order_acquire)) return;
  MutexLock lock(mutex_);
  last_call_ns_.erase(step);
}

bool PartialRuns::HasAny(int64_t now_ns) {
  MutexLock lock(mutex_);
  for (auto run = last_call_ns_.begin(); run != last_call_ns_.end();) {
    run = now_ns - run->second > kForgottenNs ? last_call_ns_.erase(run) : std::next(run);
  }
  return !last_call_ns_.empty();
}

}  // namespace fusewire::tf
