// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One caller's wait for one event; the word lives with the caller.
// Home: Signal from any thread; the rest is for the caller, through Reactor::Wait. Owns: one word. Fails: never.
// Invariants: after kDone the word never changes; nothing of the waiter is touched after it became kDone, but for a
//   wake-up of its address, which does no harm if other memory is there by then.
#ifndef FUSEWIRE_REACTOR_WAITER_H_
#define FUSEWIRE_REACTOR_WAITER_H_

#include <atomic>
#include <cstdint>

#include "fusewire/base/clock.h"

namespace fusewire {
namespace reactor {

class LoopRequests;

// How a caller that waits spends its time before it sleeps.
enum class Idling {
  kLearned,  // as has paid so far
  kSpins,    // looks for work: the peer works at the same time, on another processor
  kYields,   // looks for work, and lets other threads run in between: the peer may need this very processor
};

class Waiter {
 public:
  Waiter() = default;
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  // Any thread, once. After it, the waiter may be gone.
  void Signal();
  bool signalled() const { return word_.load(std::memory_order_acquire) == kDone; }

  // ---- for the caller's side of a loop, callers.h ----
  // The caller is about to sleep in a loop: the signal wakes that. False: it was signalled before.
  bool BeginInside(LoopRequests* loop);
  void EndInside();
  // Sleeps outside of any loop. False: the deadline came first.
  bool Sleep(Clock* clock, int64_t deadline_ns);

 private:
  // kAsleep: on the word itself. kInside: in the loop that the caller runs. kWaking: the signal is waking it there.
  static constexpr uint32_t kPending = 0, kAsleep = 1, kInside = 2, kWaking = 3, kDone = 4;
  std::atomic<uint32_t> word_{kPending};
  LoopRequests* loop_ = nullptr;
};

}  // namespace reactor
}  // namespace fusewire

#endif  // FUSEWIRE_REACTOR_WAITER_H_
