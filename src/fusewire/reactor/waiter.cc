// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/reactor/waiter.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <thread>

#include "fusewire/reactor/loop_requests.h"

namespace fusewire::reactor {

void Waiter::Signal() {
  // One exchange, of the state that is there: a caller may go into its loop, or to sleep, at any moment before.
  uint32_t was = word_.load(std::memory_order_relaxed);
  uint32_t next = 0;
  do {
    FUSEWIRE_DCHECK((was & (kDone | kWaking)) == 0);  // it is signalled once
    next = (was & kInside) != 0 ? was ^ (kInside | kWaking) : was | kDone;
  } while (!word_.compare_exchange_weak(was, next, std::memory_order_acq_rel));
  if ((was & kInside) != 0) {
    // Until the word says that we are done, neither the caller nor its loop can go.
    loop_->Wake();
    was = word_.fetch_xor(kWaking | kDone, std::memory_order_acq_rel);
  }
  if (was >= kSleeper) syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

bool Waiter::BeginInside(LoopRequests* loop) {
  loop_ = loop;
  uint32_t was = word_.load(std::memory_order_relaxed);
  do {
    if ((was & kDone) != 0) return false;
    FUSEWIRE_DCHECK((was & (kInside | kWaking)) == 0);  // one thread is at home
  } while (!word_.compare_exchange_weak(was, was | kInside, std::memory_order_acq_rel));
  return true;
}

void Waiter::EndInside() {
  uint32_t was = word_.load(std::memory_order_relaxed);
  while ((was & kInside) != 0) {
    if (word_.compare_exchange_weak(was, was & ~kInside, std::memory_order_acq_rel)) return;
  }
  while (!signalled()) std::this_thread::yield();  // a thread is between waking us and saying so
}

bool Waiter::Sleep(Clock* clock, int64_t deadline_ns, Interrupts interrupts) {
  uint32_t word = word_.fetch_add(kSleeper, std::memory_order_acq_rel) + kSleeper;
  while ((word & kDone) == 0) {
    const int64_t left_ns = deadline_ns - clock->NowNs();
    if (left_ns <= 0) break;
    timespec timeout = {};
    timeout.tv_sec = static_cast<time_t>(std::min<int64_t>(left_ns / kSecondNs, 3600));
    timeout.tv_nsec = static_cast<long>(left_ns % kSecondNs);
    // Another thread that comes to sleep, or ceases to, changes the word too: then we look again.
    const long slept = syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, word, &timeout, nullptr, 0);
    if (slept != 0 && errno == EINTR && interrupts == Interrupts::kEndWait) break;
    word = word_.load(std::memory_order_acquire);
  }
  word = word_.fetch_sub(kSleeper, std::memory_order_acq_rel);
  FUSEWIRE_DCHECK(word >= kSleeper);
  return (word & kDone) != 0;
}

}  // namespace fusewire::reactor
