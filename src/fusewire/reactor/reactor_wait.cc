// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Callers: those who hand something in on the spot, and those who wait and run an idle loop meanwhile. See
// docs/threads.md.
#include <linux/futex.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <thread>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/log.h"
#include "fusewire/reactor/reactor_impl.h"

namespace fusewire {
namespace reactor {
namespace {

// How long after a caller's wait the thread stays out of the way: the next call of a busy caller finds the loop free.
constexpr int64_t kLeaseNs = 50 * kMillisecondNs;
// How long a caller tries to take a loop whose thread is awake, before it rather sleeps.
constexpr int64_t kTakeOverNs = 20 * kMicrosecondNs;
// Sending may leave more to send; whoever hands in does not stay for all of it.
constexpr int kFlushesMax = 4;

}  // namespace

void Waiter::Signal() {
  uint32_t inside = kInside;
  if (word_.compare_exchange_strong(inside, kWaking, std::memory_order_acq_rel)) {
    // Until the word says that we are done, neither the caller nor his loop can go.
    loop_->Wake();
    word_.store(kDone, std::memory_order_release);
    return;
  }
  if (word_.exchange(kDone, std::memory_order_acq_rel) == kAsleep) {
    syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  }
}

bool Waiter::BeginInside(Reactor* loop) {
  loop_ = loop;
  uint32_t pending = kPending;
  return word_.compare_exchange_strong(pending, kInside, std::memory_order_acq_rel);
}

void Waiter::EndInside() {
  uint32_t inside = kInside;
  if (word_.compare_exchange_strong(inside, kPending, std::memory_order_acq_rel)) return;
  while (!signalled()) std::this_thread::yield();  // somebody is between waking us and saying so
}

// ---- handing in ----

bool Reactor::TryRunHere(Task& task) {
  if (!TryEnter()) return false;
  bool first = impl_->mailbox.empty();
  if (first) {
    Task now = std::move(task);
    handing_in_ = true;
    now();
    for (int i = 0; i < kFlushesMax && HasOutput(); ++i) FlushAll();
    handing_in_ = false;
  }
  Leave(Leaving::kHandedIn);
  return first;
}

void Reactor::Run(Task task) {
  if (AtHome()) {
    task();
    return;
  }
  if (TryEnter()) {
    impl_->mails.Add(static_cast<uint64_t>(impl_->mailbox.DeliverAll()));  // what was posted before comes first
    task();
    Turn();
    Leave();
    return;
  }
  Waiter ran;
  Post([&task, &ran] {
    task();
    ran.Signal();
  });
  while (!Wait(&ran, AddNs(clock_->NowNs(), 10 * kSecondNs))) {
    FUSEWIRE_LOG(kWarn, "reactor %s has not come back from a handler for 10 s; a task waits for it",
                 options_.name.c_str());
  }
}

// ---- waiting ----

// Somebody else runs the loop, or it has ended.
bool Reactor::AwaitSignal(Waiter* waiter, int64_t deadline_ns) {
  for (;;) {
    if (waiter->signalled()) return true;
    if (impl_->inner < 0) return false;  // manual: whoever turns the world has to go on
    uint32_t pending = Waiter::kPending;
    waiter->word_.compare_exchange_strong(pending, Waiter::kAsleep, std::memory_order_acq_rel);
    if (waiter->signalled()) return true;
    int64_t left_ns = deadline_ns - clock_->NowNs();
    if (left_ns <= 0) {
      // Awake again: his next wait may be inside the loop, and there he sleeps in another way.
      uint32_t asleep = Waiter::kAsleep;
      return !waiter->word_.compare_exchange_strong(asleep, Waiter::kPending, std::memory_order_acq_rel);
    }
    timespec timeout = {};
    timeout.tv_sec = static_cast<time_t>(std::min<int64_t>(left_ns / kSecondNs, 3600));
    timeout.tv_nsec = static_cast<long>(left_ns % kSecondNs);
    syscall(SYS_futex, &waiter->word_, FUTEX_WAIT_PRIVATE, Waiter::kAsleep, &timeout, nullptr, 0);
  }
}

// Enters the loop to wait in it. A thread that is awake inside is asked to leave; it may take a moment.
bool Reactor::TryTakeOver(Waiter* waiter) {
  Impl& impl = *impl_;
  if (current_home != nullptr) return false;
  int64_t now_ns = clock_->NowNs();
  impl.lease_ns.store(now_ns + kLeaseNs, std::memory_order_relaxed);
  if (TryEnter()) return true;
  bool entered = false;
  impl.callers_waiting.fetch_add(1, std::memory_order_relaxed);
  while (!entered && !waiter->signalled() && clock_->NowNs() - now_ns < kTakeOverNs) {
    Pause();
    entered = TryEnter();
  }
  impl.callers_waiting.fetch_sub(1, std::memory_order_relaxed);
  return entered;
}

bool Reactor::Wait(Waiter* waiter, int64_t deadline_ns, Idling idling) {
  FUSEWIRE_CHECK(!AtHome());  // a home that waits for itself would wait for ever
  if (waiter->signalled()) return true;
  if (TryTakeOver(waiter)) DriveUntil(waiter, deadline_ns, idling);
  return AwaitSignal(waiter, deadline_ns);
}

bool Reactor::PostAndWait(Mail* mail, Waiter* waiter, int64_t deadline_ns, Idling idling) {
  FUSEWIRE_CHECK(!AtHome());
  if (TryTakeOver(waiter)) {
    impl_->mailbox.Push(mail);  // we are awake and at home: the first turn delivers it
    DriveUntil(waiter, deadline_ns, idling);
  } else {
    Post(mail);
  }
  return AwaitSignal(waiter, deadline_ns);
}

// Runs the loop here until the signal, the deadline or the loop's end.
void Reactor::DriveUntil(Waiter* waiter, int64_t deadline_ns, Idling idling) {
  Impl& impl = *impl_;
  impl.drives.Add();
  impl.idling = idling;
  const bool soon = now_ns_ - impl.left_ns.load(std::memory_order_relaxed) < kSoonNs;
  const int came = impl.came_soon.load(std::memory_order_relaxed);
  impl.came_soon.store(soon ? std::min(came + 1, kSoonMax) : came / 4, std::memory_order_relaxed);
  SetOuter(false);
  // A thread at the loop's own epoll would be woken for our input: send it one floor up.
  if (impl.place.load(std::memory_order_seq_cst) == kAtInner) WriteEvent(impl.wake_fd);
  for (;;) {
    Turn();
    if (waiter->signalled() || now_ns_ >= deadline_ns) break;
    if (impl.closing.load(std::memory_order_acquire)) break;  // the thread ends the loop
    if (MoreToDo()) continue;
    if (impl.inner < 0) break;  // manual: whoever turns the world has to go on
    if (Spin(deadline_ns)) continue;
    if (impl.doorbell != nullptr) impl.doorbell->Sweep();
    ParkAtHome(waiter, std::min(deadline_ns, timers_.NextNs()));
  }
  impl.idling = Idling::kLearned;
  impl.lease_ns.store(now_ns_ + kLeaseNs, std::memory_order_relaxed);
  impl.left_ns.store(now_ns_, std::memory_order_relaxed);
  Leave();
}

// Sleeps at home: mail, input, the time or the signal wakes us.
void Reactor::ParkAtHome(Waiter* waiter, int64_t until_ns) {
  Impl& impl = *impl_;
  epoll_event events[kEventsPerPoll];
  int count = 0;
  SetSleeping(true);
  if (!HasMail() && !HasOutput() && waiter->BeginInside(this)) {
    impl.parks.Add();
    count = epoll_wait(impl.inner, events, kEventsPerPoll, TimeoutMs(clock_->NowNs(), until_ns));
    waiter->EndInside();
  }
  SetSleeping(false);
  impl.looks_since_poll = 0;
  now_ns_ = clock_->NowNs();
  AfterPark(count, events);
}

}  // namespace reactor
}  // namespace fusewire
