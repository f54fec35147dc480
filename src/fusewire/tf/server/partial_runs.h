// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The partial runs that have begun on a task and not ended. Between two of its calls, a partial run's graph is still
// here: it waits for feeds, and may write variables. Until it ends, no other process can take the task.
// Home: any thread. Owns: when each had its last call. Fails: never.
#pragma once

#include <atomic>
#include <cstdint>
#include <unordered_map>

#include "fusewire/base/clock.h"
#include "fusewire/base/mutex.h"

namespace fusewire::tf {

class PartialRuns {
 public:
  // A program may begin one and never end it.
  static constexpr int64_t kForgottenNs = 60 * kSecondNs;

  // A call of the step has come.
  void Keep(int64_t step, int64_t now_ns);
  // The last one has ended, or the step is cleaned up.
  void Drop(int64_t step);
  // Whether one of them has had a call in the last kForgottenNs; those that have not are dropped.
  bool HasAny(int64_t now_ns);

 private:
  Mutex mutex_;
  std::unordered_map<int64_t, int64_t> last_call_ns_ FUSEWIRE_GUARDED_BY(mutex_);
  std::atomic<bool> has_had_any_{false};  // mostly not: then no step takes the lock
};

}  // namespace fusewire::tf
