// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One event that threads wait for. Most code wants a Completion (completion.h), which also says how it ended.
// Home: Signal from any thread; the rest is for those that wait, through Reactor::Wait, all with the same reactor.
// Owns: one word.
// Invariants: kDone stays, until Reset; the thread that signals touches nothing of the waiter after it set kDone, but
//   for a wake-up of its address, which does no harm if other memory is there by then. One thread at most is inside,
//   as one thread at most is at home.
#pragma once

#include <atomic>
#include <cstdint>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"
#include "fusewire/reactor/options.h"

namespace fusewire::reactor {

class LoopRequests;

// How a caller that waits spends its time before it sleeps.
enum class Idling {
  kLearned,  // whatever has paid off so far
  kSpins,    // looks for work: the peer works at the same time, on another processor
  kYields,   // looks for work, and lets other threads run in between: the peer may need this very processor
};

class Waiter {
 public:
  Waiter() = default;
  // Not while a thread waits.
  ~Waiter() { FUSEWIRE_CHECK((word_.load(std::memory_order_relaxed) & ~kDone) == 0); }
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  // Any thread, once. After it, the waiter may be gone.
  void Signal();
  bool signalled() const { return (word_.load(std::memory_order_acquire) & kDone) != 0; }
  // Not while a thread waits. It may be signalled once more.
  void Reset() {
    FUSEWIRE_DCHECK((word_.load(std::memory_order_relaxed) & ~kDone) == 0);
    word_.store(0, std::memory_order_relaxed);
  }

  // ---- for the caller's side of a loop, callers.h ----
  // The caller is about to sleep in a loop: the signal wakes that. False: it was signalled before.
  bool BeginInside(LoopRequests* loop);
  void EndInside();
  // Sleeps outside of any loop. False: the deadline, or an interrupt that ends the wait, came first.
  bool Sleep(Clock* clock, int64_t deadline_ns, Interrupts interrupts);

 private:
  // kInside: a thread sleeps in the loop that it runs. kWaking: the signal is waking it there. From kSleeper on: how
  // many threads sleep on the word itself.
  static constexpr uint32_t kDone = 1, kInside = 2, kWaking = 4, kSleeper = 8;
  std::atomic<uint32_t> word_{0};
  LoopRequests* loop_ = nullptr;
};

}  // namespace fusewire::reactor
