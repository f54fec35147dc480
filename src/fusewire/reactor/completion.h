// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Completion is the end of something that threads wait for, and the Status that it ended with: the one word to wait
// on. Whatever a thread waits for in Fusewire (a call's answer, a collective, a drain) says here that it has ended.
// Home: Done from any thread; Wait from any thread but a home, all of one Completion with the same reactor.
// Owns: the status. Its owner keeps it until every wait has returned: that is checked.
// Fails: never; a wait may be over before the end.
//   pending --Done--> done (for good, or until Reset)      Wait before or after Done, by any number of threads
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"
#include "fusewire/base/mailbox.h"
#include "fusewire/base/metrics.h"
#include "fusewire/base/status.h"
#include "fusewire/reactor/waiter.h"

namespace fusewire::reactor {

class Reactor;

class Completion {
 public:
  Completion() = default;
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  // Any thread, once. After it, the completion may be gone.
  void Done(Status status = Status::Ok()) {
    FUSEWIRE_CHECK(!done());
    status_ = std::move(status);
    waiter_.Signal();
  }
  // Any thread.
  bool done() const { return waiter_.signalled(); }
  // After the end.
  const Status& status() const {
    FUSEWIRE_CHECK(done());
    return status_;
  }
  // After the end: for the one thread that waited. The completion may go, or be used once more after Reset.
  Status TakeStatus() {
    FUSEWIRE_CHECK(done());
    return std::move(status_);
  }
  // Not while a thread waits, and not between its maker's Done and the end of the wait for it.
  void Reset() {
    waiter_.Reset();
    status_ = Status::Ok();
  }

  // Any thread but a home. Runs the loop of `home` meanwhile, if it is idle. True: it is done. False: the deadline, or
  // an interrupt that ends the wait, came first; it may be waited for again. A manual reactor is turned while it has
  // something to do, and then the wait is over.
  bool Wait(Reactor& home, int64_t deadline_ns = kForeverNs, Idling idling = Idling::kLearned,
            Interrupts interrupts = Interrupts::kGoOn);
  // As Post and then Wait, in one go: an idle loop takes the mail from this thread and is driven by it at once.
  bool PostAndWait(Reactor& home, Mail* mail, int64_t deadline_ns = kForeverNs, Idling idling = Idling::kLearned,
                   Interrupts interrupts = Interrupts::kGoOn);

 private:
  Waiter waiter_;
  Status status_;
};

// A Drain counts what is open at one home (calls, operations, messages), and says when all of it is done: the one
// "until nothing is left" of everything that closes.
// Invariants: the count is never below zero. A thread that waits also waits for what is opened meanwhile. It outlives
// every wait: that is checked.
class Drain {
 public:
  // `what` names what is counted, for errors: "calls of client ps:0".
  explicit Drain(std::string what) : what_(std::move(what)) {}
  ~Drain() { FUSEWIRE_CHECK(waiting_.empty()); }
  Drain(const Drain&) = delete;
  Drain& operator=(const Drain&) = delete;

  // ---- at home ----
  void Open() { open_.Add(); }
  void Close() {
    FUSEWIRE_DCHECK(open() > 0);
    open_.Set(open() - 1);
    if (open() == 0 && !waiting_.empty()) TellAll();
  }
  bool empty() const { return open() == 0; }

  // Any thread.
  uint64_t open() const { return open_.Read(); }

  // Any thread but a home. Ok once nothing is open at `home`, which is turned meanwhile, as in Completion::Wait.
  Status Wait(Reactor& home, int64_t deadline_ns);

 private:
  void TellAll();
  Status StillOpen(int64_t waited_ns) const;

  const std::string what_;
  Counter open_;
  std::vector<Completion*> waiting_;  // at home; each lives in a Wait
};

}  // namespace fusewire::reactor
