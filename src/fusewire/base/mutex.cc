// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/base/mutex.h"

#include <algorithm>
#include <chrono>

#include "fusewire/base/clock.h"

namespace fusewire {
namespace {

// Longer waits are split: nanoseconds added to a time of day must not overflow.
constexpr int64_t kPieceNs = 3600 * kSecondNs;

}  // namespace

// Lends the caller's lock to the standard library, and takes it back in the same state.
void CondVar::Wait(Mutex& mutex) {
  std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
  changed_.wait(lock);
  (void)lock.release();
}

bool CondVar::WaitUntil(Mutex& mutex, int64_t deadline_ns) {
  int64_t left_ns = deadline_ns - Clock::Real()->NowNs();
  if (left_ns <= 0) return false;
  std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
  changed_.wait_for(lock, std::chrono::nanoseconds(std::min(left_ns, kPieceNs)));
  (void)lock.release();
  return Clock::Real()->NowNs() < deadline_ns;
}

}  // namespace fusewire
