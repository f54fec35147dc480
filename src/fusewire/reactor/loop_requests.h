// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The requests of other threads to a loop: to wake for their mail, to make way for a caller, or to end.
// Home: any thread, but for SetSleeping. Owns: two eventfds; a manual reactor has none. Fails: Open with errno.
// Invariants: the loop ends after it was asked to; it is woken at most once each time it says that it sleeps.
#pragma once

#include <atomic>
#include <cstdint>

namespace fusewire::reactor {

class LoopRequests {
 public:
  LoopRequests() = default;
  LoopRequests(const LoopRequests&) = delete;
  LoopRequests& operator=(const LoopRequests&) = delete;
  ~LoopRequests();
  bool Open();
  int wake_fd() const { return wake_fd_; }  // wakes the thread that waits in the loop's own epoll
  int kick_fd() const { return kick_fd_; }  // wakes the reactor's thread in the outer epoll

  // ---- that it wakes ----
  // Wakes a loop that sleeps, or else does nothing. The sender leaves its mail first, and then calls this.
  void Wake();
  // By the thread at home, before it checks for remaining work, and when it stays.
  void SetSleeping(bool sleeping) { sleeping_.store(sleeping, std::memory_order_seq_cst); }
  // The reactor's thread is at the outer epoll, or on its way there, and looks by the clock: Wake kicks it too.
  void SetGuarded(bool guarded) { guarded_.store(guarded, std::memory_order_seq_cst); }
  bool guarded() const { return guarded_.load(std::memory_order_seq_cst); }
  uint64_t wakes() const { return wakes_.load(std::memory_order_relaxed); }

  // ---- that it makes way ----
  void BeginWaitingForLoop() { callers_waiting_.fetch_add(1, std::memory_order_relaxed); }
  void EndWaitingForLoop();
  bool callers_wait() const { return callers_waiting_.load(std::memory_order_relaxed) > 0; }
  // The caller that drives the loop leaves it, and waits outside. If another one drives by now, it may leave as well.
  void AskDriverToLeave();
  void ForgetDriverToLeave() {
    if (driver_to_leave()) driver_to_leave_.store(false, std::memory_order_relaxed);
  }
  bool driver_to_leave() const { return driver_to_leave_.load(std::memory_order_seq_cst); }

  // ---- that it ends ----
  void AskToEnd();
  bool asked_to_end() const { return closing_.load(std::memory_order_seq_cst); }
  void SetEnded();
  bool ended() const { return ended_.load(std::memory_order_seq_cst); }
  // Whether to break off a search for work. After the end no thread is left to make way for.
  bool wanted() const {
    const bool wanted = callers_wait() || closing_.load(std::memory_order_relaxed);
    return wanted && !ended_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<bool> sleeping_{false};  // no thread will look at the mailbox by itself: wake one
  std::atomic<bool> guarded_{false};
  std::atomic<int> callers_waiting_{0};  // want the loop while the thread is awake in it
  std::atomic<bool> driver_to_leave_{false};
  std::atomic<bool> closing_{false};
  std::atomic<bool> ended_{false};
  std::atomic<uint64_t> wakes_{0};
  int wake_fd_ = -1, kick_fd_ = -1;
};

}  // namespace fusewire::reactor
