// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Reactor is one home: a loop that owns its connections, its timers and its memory. Nothing in it is shared.
// Home: the thread that runs the loop at this moment; there is one at a time. Usually that is the reactor's own thread;
//   a caller that waits for its own answer may run an idle loop itself (Wait), and a caller that only wants to hand
//   something in may do that on the spot (TryRunHere). See docs/threads.md. The functions for objects at home are those
//   of Home (home.h).
// Owns: an epoll, a mailbox, a timer wheel. Fails: Start says why; a running reactor does not fail.
// A Pool is the reactors of one process or one server: N homes, and a fair choice among them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "fusewire/base/clock.h"
#include "fusewire/base/mailbox.h"
#include "fusewire/base/status.h"
#include "fusewire/reactor/home.h"
#include "fusewire/reactor/options.h"
#include "fusewire/reactor/stats.h"
#include "fusewire/reactor/waiter.h"

namespace fusewire::reactor {

class Doorbell;

class Reactor final : public Home {
 public:
  // Starts a thread.
  static Result<std::unique_ptr<Reactor>> Start(const Options& options);
  // No thread, no descriptors: a test or a simulation turns it with RunManually().
  static std::unique_ptr<Reactor> MakeManual(Clock* clock);
  ~Reactor();

  // Any thread. Delivered once, in order per sender. After the loop's end a sender delivers, so that nothing is lost.
  void Post(Mail* mail);
  void Post(Task task);
  // Any thread. Runs `task` at once on this thread if the loop is idle, and sends what it wants sent; nothing else, so
  // that a caller may hold locks. False (and `task` is untouched) if the loop is not idle, if it has mail that came
  // first, or if this thread is inside another loop: then Post.
  bool TryRunHere(Task& task);
  // Any thread. Delivers them at once on this thread, as TryRunHere runs a task; otherwise posts them.
  void HandIn(Mail* const* mails, size_t count);
  void HandIn(Mail* mail) { HandIn(&mail, 1); }
  // Any thread. Runs `task` at home and returns when it has run; at home already, at once. For setting up and taking
  // down.
  void Run(Task task);
  // Any thread but a home. Waits for the waiter's signal; meanwhile runs the loop here if it is idle. False: the
  // deadline, or an interrupt that ends the wait, came first.
  bool Wait(Waiter* waiter, int64_t deadline_ns, Idling idling = Idling::kLearned,
            Interrupts interrupts = Interrupts::kGoOn);
  // As Post and then Wait, in one go: an idle loop takes the mails from this thread and is driven by it at once.
  bool PostAndWait(Mail* const* mails, size_t count, Waiter* waiter, int64_t deadline_ns,
                   Idling idling = Idling::kLearned, Interrupts interrupts = Interrupts::kGoOn);
  bool PostAndWait(Mail* mail, Waiter* waiter, int64_t deadline_ns, Idling idling = Idling::kLearned,
                   Interrupts interrupts = Interrupts::kGoOn) {
    return PostAndWait(&mail, 1, waiter, deadline_ns, idling, interrupts);
  }
  // Any thread.
  Stats Snapshot() const;

  // At home. How other processes wake this loop (doorbell.h); made when first asked for, kept until the reactor goes.
  Result<Doorbell*> OpenDoorbell();

  // Manual reactors: one turn. True if anything was done.
  bool RunManually();

  // Any thread. The loop ends after the mail that is there now. May be repeated.
  void Close();
  // Any thread but a home. Waits for the loop's end.
  void Join();

 private:
  struct Impl;
  Reactor(const Options& options, Clock* clock);

  std::unique_ptr<Impl> impl_;
};

// Any thread. Owns its reactors. Start leaves nothing behind if it fails.
class Pool {
 public:
  static Result<std::unique_ptr<Pool>> Start(const PoolOptions& options);
  // A pool of one reactor that somebody else owns: one of another pool's, or one that a test turns by hand. It must
  // outlive the pool.
  static std::unique_ptr<Pool> Around(Reactor* reactor);
  // The same reactors once more, for another server of this process. `pool` outlives it; its own owner closes it.
  static std::unique_ptr<Pool> Share(Pool& pool);
  ~Pool();

  int size() const { return static_cast<int>(reactors_.size()); }
  Reactor& at(int index) { return *reactors_[static_cast<size_t>(index)]; }
  // Any thread. Each in turn.
  Reactor& Next();
  // Any thread but a home. Ends and joins all; may be repeated.
  void Close();

 private:
  Pool() = default;
  std::vector<std::unique_ptr<Reactor>> owned_;
  std::vector<Reactor*> reactors_;
  std::atomic<unsigned> next_{0};
};

}  // namespace fusewire::reactor
