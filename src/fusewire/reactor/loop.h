// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Loop is what the thread at home runs: turns, and the search for the next piece of work in between.
// Home: the reactor's, unless a comment begins with "Any thread.". Owns: the mailbox, the doorbell, and what is learned
//   of spinning.
// Invariants: mail is delivered once, at home; before the thread sleeps it has said so and looked at the mail again.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "fusewire/base/mailbox.h"
#include "fusewire/base/metrics.h"
#include "fusewire/base/status.h"
#include "fusewire/reactor/doorbell.h"
#include "fusewire/reactor/home.h"
#include "fusewire/reactor/loop_requests.h"
#include "fusewire/reactor/process_limits.h"
#include "fusewire/reactor/spin.h"
#include "fusewire/reactor/waiter.h"

namespace fusewire::reactor {

// Rounded up: waking early would turn the loop for nothing.
int TimeoutMs(int64_t now_ns, int64_t until_ns);

class Loop {
 public:
  explicit Loop(HomeParts& home, int cpus = UsableCpuCount(), const std::string& runnable = RunnableThreads::kFile);
  HomeParts& home() { return home_; }
  LoopRequests& requests() { return requests_; }
  const LoopRequests& requests() const { return requests_; }
  bool is_manual() const { return !home_.poller.is_open(); }

  // ---- mail ----
  // Any thread.
  void Post(Mail* mail) {
    if (mailbox_.Push(mail)) requests_.Wake();
  }
  // The thread at home is the sender, and is going to turn: nobody has to be woken.
  void PostAtHome(Mail* mail) { mailbox_.Push(mail); }
  // Any thread.
  bool has_posted_mail() const { return !mailbox_.empty(); }
  void DeliverMail() { mails_.Add(static_cast<uint64_t>(mailbox_.DeliverAll())); }
  // Mail, of either kind: what was left here by threads of this process, or in memory that is shared with another.
  bool HasMail() const;
  // Said before the thread looks whether there is anything left to do, and taken back if it stays.
  void SetSleeping(bool sleeping);

  // ---- the doorbell ----
  Result<Doorbell*> OpenDoorbell(Home& home);
  void CloseDoorbell() { doorbell_.reset(); }
  bool AnswerDoorbell() { return doorbell_ != nullptr && doorbell_->Answer(); }
  // Once each time that the loop parks.
  void SweepDoorbell() {
    if (doorbell_ != nullptr) doorbell_->Sweep();
  }
  // Any thread that has taken events out of epoll and cannot come in. Epoll reports again what is watched for as long
  // as it lasts; it reports the doorbell once, and the thread inside may be asleep already.
  void PassOn(const PolledEvents& polled) const;

  // ---- a turn, the order of the whole system ----
  bool Turn();
  // True if the loop has to turn again before its thread may park. Among mail without end, input and time have their
  // turn too.
  bool MoreToDo();
  // Looks for work without parking, until until_ns or for as long as the learner thinks that it pays.
  // True if the loop should turn again instead of parking.
  bool Spin(int64_t until_ns);
  // There is no work at this time.
  void SetIdle() { home_.idle_ns = home_.now_ns; }
  void UpdateNow() { home_.now_ns = home_.clock->NowNs(); }
  // How the caller that drives looks for work. None: the reactor's thread is at home.
  void SetIdling(std::optional<Idling> idling) { idling_ = idling; }

  // ---- after a sleep ----
  void CountPark();
  // In the loop's own epoll.
  void AfterPark(const PolledEvents& polled);
  // The work had waited while the loop was parked elsewhere.
  void LearnFromPark() { spin_.Parked(home_.now_ns - idle_since_ns_); }

  // Any thread.
  struct Counts {
    uint64_t turns, parks, spin_hits, spin_misses, mails;
  };
  Counts counts() const;

 private:
  // How long it may look, as the thread at home wants it.
  int64_t SpinBudgetNs();
  bool Look(bool yields);

  HomeParts& home_;
  Mailbox mailbox_;
  LoopRequests requests_;
  std::unique_ptr<Doorbell> doorbell_;
  std::atomic<int> doorbell_event_{-1};  // its eventfd
  const RunnableThreads runnable_;
  const int64_t spin_ns_max_;
  SpinLearner spin_;
  std::optional<Idling> idling_;
  int64_t idle_since_ns_ = 0;  // when the loop last ran out of work
  Counter turns_, parks_, spin_hits_, spin_misses_, mails_;
};

}  // namespace fusewire::reactor
