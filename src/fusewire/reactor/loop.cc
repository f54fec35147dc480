// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/reactor/loop.h"

#include <sched.h>

#include <algorithm>
#include <climits>

#include "fusewire/reactor/poller.h"
#include "fusewire/reactor/process_limits.h"

namespace fusewire::reactor {
namespace {

// How often a loop that is busy with mail or with one descriptor asks epoll for the others: once in this many looks.
constexpr int kLooksPerPoll = 64;
// A look costs less than asking for the time.
constexpr int kLooksPerClock = 4;
// A thread that was parked for so long had nothing to do.
constexpr int64_t kIdleNs = 50 * kMicrosecondNs;
// A caller has nothing to do but wait, so it may look for longer than the reactor's thread: so many times as long.
constexpr int kCallerSpins = 4;
// It does so only while processors are idle, which it checks once in this time.
constexpr int64_t kLookAroundNs = 10 * kMicrosecondNs;

}  // namespace

int TimeoutMs(int64_t now_ns, int64_t until_ns) {
  if (until_ns == kForeverNs) return -1;
  if (until_ns <= now_ns) return 0;
  return static_cast<int>(std::min<int64_t>((until_ns - now_ns + kMillisecondNs - 1) / kMillisecondNs, INT_MAX));
}

// Alone on a processor, spinning delays the peer.
Loop::Loop(HomeParts& home, int cpus, const std::string& runnable)
    : home_(home),
      runnable_(cpus, runnable),
      spin_ns_max_(cpus < 2 ? 0 : home.options.spin_ns_max),
      spin_(runnable_.known() ? kCallerSpins * spin_ns_max_ : spin_ns_max_) {}

Loop::Counts Loop::counts() const {
  return {turns_.Read(), parks_.Read(), spin_hits_.Read(), spin_misses_.Read(), mails_.Read()};
}

// ---- mail and the doorbell ----

bool Loop::HasMail() const { return !mailbox_.empty() || (doorbell_ != nullptr && doorbell_->rung()); }

void Loop::SetSleeping(bool sleeping) {
  requests_.SetSleeping(sleeping);
  if (doorbell_ != nullptr) doorbell_->SetAsleep(sleeping);
}

Result<Doorbell*> Loop::OpenDoorbell(Home& home) {
  FUSEWIRE_AT_HOME(home);
  if (doorbell_ == nullptr) {
    doorbell_ = FUSEWIRE_TRY(Doorbell::Make(home));
    doorbell_event_.store(doorbell_->files().event, std::memory_order_seq_cst);
  }
  return doorbell_.get();
}

void Loop::PassOn(const PolledEvents& polled) const {
  const int doorbell_event = doorbell_event_.load(std::memory_order_seq_cst);
  if (doorbell_event >= 0 && polled.Contain(doorbell_event)) WriteEvent(doorbell_event);
}

// ---- a turn ----

bool Loop::Turn() {
  turns_.Add();
  int mails = mailbox_.DeliverAll();
  mails_.Add(static_cast<uint64_t>(mails));
  int fired = home_.timers.Advance(home_.now_ns);
  bool flushed = !home_.output.empty();
  if (flushed && doorbell_ != nullptr) doorbell_->HoldWakes();
  home_.output.Flush();
  if (flushed && doorbell_ != nullptr) doorbell_->SendWakes();
  return mails > 0 || fired > 0 || flushed;
}

bool Loop::MoreToDo() {
  if (!HasMail() && home_.output.empty()) return false;
  UpdateNow();
  AnswerDoorbell();
  if (home_.poller.is_open() && home_.poller.IsDue(kLooksPerPoll)) home_.poller.Poll();
  return true;
}

int64_t Loop::SpinBudgetNs() {
  if (home_.options.busy_poll) return kForeverNs;
  if (!idling_.has_value()) return std::min(spin_.NextSpinNs(), spin_ns_max_);
  switch (*idling_) {
    case Idling::kLearned: return spin_.NextSpinNs();
    case Idling::kYields: return kCallerSpins * home_.options.spin_ns_max;
    case Idling::kSpins: break;
  }
  return spin_ns_max_;
}

// One look at everything that may have work, the cheapest first. While all input comes from one handler and no other
// thread runs between two looks, epoll is asked only once in kLooksPerPoll looks, so that the others get their turn.
bool Loop::Look(bool yields) {
  Poller& poller = home_.poller;
  bool hit = !mailbox_.empty();
  if (AnswerDoorbell()) hit = true;
  const bool one_talks = poller.hot_talks_alone() && !yields;
  if (!hit && one_talks) hit = poller.PollHot();
  const bool ask_all = poller.IsDue(kLooksPerPoll) || (!hit && !one_talks);
  if (ask_all && poller.Poll()) hit = true;
  if (ask_all && !hit) SetIdle();
  return hit;
}

bool Loop::Spin(int64_t until_ns) {
  // Reads the clock now, and not once something has come: then a thread waits for the result.
  UpdateNow();
  idle_since_ns_ = home_.now_ns;
  const bool yields = idling_ == Idling::kYields;
  const bool learns = !home_.options.busy_poll && !yields && idling_ != Idling::kSpins;
  const int64_t budget_ns = SpinBudgetNs();
  const bool is_long = learns && budget_ns > spin_ns_max_;
  if (budget_ns == 0 || (is_long && runnable_.TooMany())) return false;
  const int64_t began_ns = home_.now_ns;
  if (doorbell_ != nullptr) doorbell_->BeginWatching();
  const int64_t end_ns = std::min(until_ns, std::min(home_.timers.NextNs(), AddNs(began_ns, budget_ns)));
  int64_t look_around_ns = is_long ? began_ns + kLookAroundNs : kForeverNs;
  for (int looks = 1;; ++looks) {
    if (Look(yields)) {
      spin_hits_.Add();
      if (learns) spin_.Hit(home_.now_ns - began_ns);
      return true;
    }
    if (requests_.wanted()) return home_.options.busy_poll;
    if (looks % kLooksPerClock == 0) UpdateNow();
    if (home_.now_ns >= end_ns) break;
    if (home_.now_ns >= look_around_ns) {
      if (runnable_.TooMany()) return false;
      look_around_ns = home_.now_ns + kLookAroundNs;
    }
    if (yields) {
      sched_yield();
    } else {
      Pause();
    }
  }
  const bool in_vain = home_.now_ns - began_ns >= budget_ns;
  if (!in_vain) return true;  // a timer or the caller's deadline is due
  spin_misses_.Add();
  if (learns) spin_.Miss();
  return false;
}

void Loop::CountPark() {
  parks_.Add();
  if (home_.now_ns - idle_since_ns_ >= kIdleNs) SetIdle();
}

// The kernel interrupts a thread whose ring has news, before epoll reports them: then the hot one is asked.
void Loop::AfterPark(const PolledEvents& polled) {
  if (polled.count != 0) LearnFromPark();
  if (polled.count > 0) home_.poller.Deliver(polled);
  if (polled.count < 0) home_.poller.PollHot();
}

}  // namespace fusewire::reactor
