// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/reactor/waiter.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <thread>

#include "fusewire/base/check.h"
#include "fusewire/reactor/loop_requests.h"

namespace fusewire {
namespace reactor {

void Waiter::Signal() {
  // One exchange, of the state that is there: the caller may go into its loop, or to sleep, at any moment before.
  uint32_t was = word_.load(std::memory_order_relaxed);
  while (!word_.compare_exchange_weak(was, was == kInside ? kWaking : kDone, std::memory_order_acq_rel)) {
  }
  FUSEWIRE_DCHECK(was == kPending || was == kAsleep || was == kInside);  // it is signalled once
  if (was == kInside) {
    // Until the word says that we are done, neither the caller nor its loop can go.
    loop_->Wake();
    word_.store(kDone, std::memory_order_release);
  } else if (was == kAsleep) {
    syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  }
}

bool Waiter::BeginInside(LoopRequests* loop) {
  loop_ = loop;
  uint32_t pending = kPending;
  return word_.compare_exchange_strong(pending, kInside, std::memory_order_acq_rel);
}

void Waiter::EndInside() {
  uint32_t inside = kInside;
  if (word_.compare_exchange_strong(inside, kPending, std::memory_order_acq_rel)) return;
  FUSEWIRE_DCHECK(inside == kWaking || inside == kDone);
  while (!signalled()) std::this_thread::yield();  // a thread is between waking us and saying so
}

bool Waiter::Sleep(Clock* clock, int64_t deadline_ns) {
  for (;;) {
    uint32_t pending = kPending;
    word_.compare_exchange_strong(pending, kAsleep, std::memory_order_acq_rel);
    if (signalled()) return true;
    const int64_t left_ns = deadline_ns - clock->NowNs();
    if (left_ns <= 0) {
      // Awake again: the next wait may be inside the loop, where the caller sleeps in another way.
      uint32_t asleep = kAsleep;
      return !word_.compare_exchange_strong(asleep, kPending, std::memory_order_acq_rel);
    }
    timespec timeout = {};
    timeout.tv_sec = static_cast<time_t>(std::min<int64_t>(left_ns / kSecondNs, 3600));
    timeout.tv_nsec = static_cast<long>(left_ns % kSecondNs);
    syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, kAsleep, &timeout, nullptr, 0);
  }
}

}  // namespace reactor
}  // namespace fusewire
