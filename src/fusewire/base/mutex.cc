// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/base/mutex.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"

namespace fusewire {
namespace {

// Longer waits are split: nanoseconds added to a time of day must not overflow.
constexpr int64_t kPieceNs = 3600 * kSecondNs;

}  // namespace

// std::condition_variable::wait is a newer symbol than all others that we need: with it, a wheel would ask for a newer
// system.
void CondVar::Wait(Mutex& mutex) {
  FUSEWIRE_CHECK(pthread_cond_wait(changed_.native_handle(), mutex.mutex_.native_handle()) == 0);
}

// Lends the caller's lock to the standard library, and takes it back in the same state.
bool CondVar::WaitUntil(Mutex& mutex, int64_t deadline_ns) {
  int64_t left_ns = deadline_ns - Clock::Real()->NowNs();
  if (left_ns <= 0) return false;
  std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
  changed_.wait_for(lock, std::chrono::nanoseconds(std::min(left_ns, kPieceNs)));
  (void)lock.release();
  return Clock::Real()->NowNs() < deadline_ns;
}

}  // namespace fusewire
