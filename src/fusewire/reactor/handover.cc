// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/reactor/handover.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/reactor/poller.h"

namespace fusewire::reactor {
namespace {

// How many turns a thread that leaves the loop still takes for work that came meanwhile.
constexpr int kLastTurns = 2;
// How long after a caller's wait the thread stays out of the way.
constexpr int64_t kLeaseNs = 50 * kMillisecondNs;
// How often a busy-polling thread looks whether the callers that took its place are still there.
constexpr int64_t kLookAgainNs = 20 * kMillisecondNs;
// A caller that comes back so soon after it left, so often, is about to come back again. The thread then looks after
// the loop when none has been there for kGuardNs, and a caller that leaves need not see to it that input wakes it.
constexpr int64_t kSoonNs = 50 * kMicrosecondNs;
constexpr int kSoonMin = 16, kSoonMax = 64;
constexpr int64_t kGuardNs = 1 * kMillisecondNs;
// A caller that has driven for so long makes way for the next one: it may wait for something that comes in an hour.
// Giving the loop away costs both some microseconds.
constexpr int64_t kLongDriveNs = 1 * kMillisecondNs;
// Until when a thread that looks by the clock says that it sleeps: only work that is left over is worth a kick.
constexpr int64_t kGuardWakesNs = 1;

}  // namespace

Handover::Handover(const Home& home, HomeParts& parts) : home_(home), loop_(parts) {}

Handover::~Handover() {
  FUSEWIRE_CHECK(token_.load(std::memory_order_relaxed) == 0);
  if (outer_ >= 0) close(outer_);
}

bool Handover::Open() {
  Poller& poller = loop_.home().poller;
  if (!requests().Open() || !poller.Open(requests().wake_fd())) return false;
  outer_ = epoll_create1(EPOLL_CLOEXEC);
  if (outer_ < 0) return false;
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = static_cast<uint64_t>(requests().kick_fd());
  FUSEWIRE_CHECK(epoll_ctl(outer_, EPOLL_CTL_ADD, requests().kick_fd(), &event) == 0);
  event.events = 0;
  event.data.u64 = static_cast<uint64_t>(poller.fd());
  FUSEWIRE_CHECK(epoll_ctl(outer_, EPOLL_CTL_ADD, poller.fd(), &event) == 0);
  place_.store(ThreadPlace::kAtOuter);  // a caller may be faster than the thread: then it is told as if it were parked
  return true;
}

// ---- in and out ----

bool Handover::TryEnter() {
  int free = 0;
  if (current_home != nullptr || !token_.compare_exchange_strong(free, 1, std::memory_order_seq_cst)) return false;
  current_home = &home_;
  loop_.UpdateNow();
  loop_.SetSleeping(false);  // mail that comes now is seen before we leave
  return true;
}

// True if work is left that another thread has to do.
bool Handover::TurnBeforeLeaving(int turns_max) {
  HomeParts& parts = loop_.home();
  for (int turns = 0;;) {
    loop_.SetSleeping(true);
    bool busy = loop_.HasMail() || !parts.output.empty();
    const bool alone = place() == ThreadPlace::kNone && !(loop_.is_manual() && turns_max == 0);
    // A thread that leaves does not do all the work that is left: the reactor's own thread goes on, if there is one.
    // Once the loop has ended, no thread answers the doorbell.
    if (alone) busy = loop_.has_posted_mail() || !parts.output.empty();
    if (!busy) return false;
    if (turns++ >= turns_max && !alone) return true;
    loop_.SetSleeping(false);
    loop_.UpdateNow();
    if (!alone) loop_.AnswerDoorbell();
    loop_.Turn();
  }
}

void Handover::Leave(Leaving how) {
  FUSEWIRE_DCHECK(current_home == &home_);
  FUSEWIRE_DCHECK(token_.load(std::memory_order_relaxed) == 1);
  bool comes_back = false;
  do {
    const bool busy = TurnBeforeLeaving(how == Leaving::kHandedIn ? 0 : kLastTurns);
    if (MustArm()) SetOuter(true);
    const int64_t next_ns = busy ? 0 : loop_.home().timers.NextNs();
    current_home = nullptr;
    token_.store(0, std::memory_order_seq_cst);
    // From here on another thread may be at home.
    const bool earlier = next_ns < thread_wakes_ns_.load(std::memory_order_seq_cst);
    if (earlier || requests().asked_to_end()) WakeThread();
    // The thread may have gone to the outer epoll after we looked: then that has not been armed, and we come back for
    // it. And mail that comes after the end, while we were inside, was left to us by its sender.
    const bool unarmed =
        place() == ThreadPlace::kAtOuter && !outer_armed_.load(std::memory_order_seq_cst) && !requests().guarded();
    const bool orphaned = requests().ended() && loop_.has_posted_mail();
    comes_back = unarmed || orphaned;
  } while (comes_back && TryEnter());
}

void Handover::TurnForSender() {
  if (home_.AtHome()) return;
  const Home* own_home = std::exchange(current_home, nullptr);  // from another home it steps over for a moment
  if (TryEnter()) {
    loop_.Turn();
    Leave();
  }
  current_home = own_home;
}

void Handover::WakeThread() {
  switch (place()) {
    case ThreadPlace::kAtOuter: WriteEvent(requests().kick_fd()); break;
    case ThreadPlace::kAtInner: WriteEvent(requests().wake_fd()); break;
    case ThreadPlace::kNone:
    case ThreadPlace::kRunning: break;
  }
}

void Handover::SetOuter(bool armed) {
  if (outer_ < 0 || outer_armed_.load(std::memory_order_relaxed) == armed) return;
  const int inner = loop_.home().poller.fd();
  epoll_event event = {};
  event.events = armed ? EPOLLIN | EPOLLONESHOT : 0;
  event.data.u64 = static_cast<uint64_t>(inner);
  outer_armed_.store(armed, std::memory_order_seq_cst);
  FUSEWIRE_CHECK(epoll_ctl(outer_, EPOLL_CTL_MOD, inner, &event) == 0);
}

// ---- callers ----

void Handover::Lease(int64_t now_ns) { lease_ns_.store(now_ns + kLeaseNs, std::memory_order_relaxed); }

void Handover::AskLongDriverToLeave(int64_t now_ns) {
  if (now_ns - driving_since_ns_.load(std::memory_order_relaxed) > kLongDriveNs) requests().AskDriverToLeave();
}

void Handover::BeginDriving() {
  requests().ForgetDriverToLeave();
  driving_since_ns_.store(loop_.home().now_ns, std::memory_order_relaxed);
  const bool soon = loop_.home().now_ns - left_ns_.load(std::memory_order_relaxed) < kSoonNs;
  const int came = came_soon_.load(std::memory_order_relaxed);
  came_soon_.store(soon ? std::min(came + 1, kSoonMax) : came / 4, std::memory_order_relaxed);
  SetOuter(false);
  // A thread at the loop's own epoll would be woken for our input: send it one floor up.
  if (place() == ThreadPlace::kAtInner) WriteEvent(requests().wake_fd());
}

void Handover::EndDriving() {
  driving_since_ns_.store(kForeverNs, std::memory_order_relaxed);
  // The loop's own time may be old: a driver that yields looks at the clock only now and then.
  const int64_t now_ns = home_.clock()->NowNs();
  Lease(now_ns);
  left_ns_.store(now_ns, std::memory_order_relaxed);
  Leave();
}

bool Handover::IsHot(int64_t now_ns) const {
  return came_soon_.load(std::memory_order_relaxed) >= kSoonMin &&
         now_ns - left_ns_.load(std::memory_order_relaxed) < kGuardNs;
}

// ---- the reactor's thread ----

bool Handover::MustMakeWay(int64_t now_ns) const {
  return loop_.requests().callers_wait() || now_ns < lease_ns_.load(std::memory_order_relaxed);
}

void Handover::ThreadParks(ThreadPlace place, bool may_guard, int64_t now_ns, int64_t else_ns) {
  FUSEWIRE_DCHECK(place == ThreadPlace::kAtInner || place == ThreadPlace::kAtOuter);
  const bool by_the_clock = may_guard && IsHot(now_ns);
  FUSEWIRE_DCHECK(!by_the_clock || place == ThreadPlace::kAtOuter);
  requests().SetGuarded(by_the_clock);
  thread_wakes_ns_.store(by_the_clock ? kGuardWakesNs : else_ns, std::memory_order_seq_cst);
  place_.store(place, std::memory_order_seq_cst);
}

// Until when the parked thread sleeps at the most.
int64_t Handover::AwakeNs(int64_t now_ns) const {
  int64_t until_ns = thread_wakes_ns_.load(std::memory_order_relaxed);
  if (loop_.requests().guarded()) until_ns = left_ns_.load(std::memory_order_relaxed) + kGuardNs;
  // A thread that polls only makes way for callers that poll instead.
  if (home_.busy_poll()) until_ns = std::min(until_ns, std::max(lease_ns_.load(), AddNs(now_ns, kLookAgainNs)));
  return until_ns;
}

bool Handover::AwaitWork(ThreadPlace place, PolledEvents* polled) {
  const bool guarded = requests().guarded();
  const int64_t now_ns = home_.clock()->NowNs();
  const int timeout_ms = TimeoutMs(now_ns, AwakeNs(now_ns));
  if (place == ThreadPlace::kAtInner) {
    loop_.home().poller.Wait(polled, timeout_ms);
  } else {
    polled->count = epoll_wait(outer_, polled->events, PolledEvents::kMax, timeout_ms);
  }
  if (guarded) {
    if (polled->count == 0 && IsHot(home_.clock()->NowNs())) return false;
    requests().SetGuarded(false);  // a caller that leaves from now on sees to it that input wakes us
  }
  if (place == ThreadPlace::kAtOuter) {
    // The one shot is spent. Said before we try to enter, so that a thread that is inside instead of us arms it again.
    if (polled->count > 0) outer_armed_.store(false, std::memory_order_seq_cst);
    ReadEvent(requests().kick_fd());
  }
  return true;
}

void Handover::ThreadEnds() {
  place_.store(ThreadPlace::kNone, std::memory_order_seq_cst);
  requests().SetEnded();
  loop_.Turn();
  Leave();
}

}  // namespace fusewire::reactor
