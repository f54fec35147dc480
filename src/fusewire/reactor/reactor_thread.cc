// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Who is at home: the token, how the loop is passed on, and where the reactor's thread waits. See docs/threads.md.
#include <pthread.h>
#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/log.h"
#include "fusewire/reactor/cpus.h"
#include "fusewire/reactor/reactor_impl.h"

namespace fusewire {
namespace reactor {
namespace {

// How many turns somebody who leaves the loop still takes for work that came meanwhile.
constexpr int kLastTurns = 2;
// How often a busy-polling thread looks whether the callers that took its place are still there.
constexpr int64_t kLookAgainNs = 20 * kMillisecondNs;

}  // namespace

// ---- entering and leaving the loop ----

bool Reactor::TryEnter() {
  int free = 0;
  if (current_home != nullptr || !impl_->token.compare_exchange_strong(free, 1, std::memory_order_seq_cst))
    return false;
  Arrive();
  return true;
}

void Reactor::Arrive() {
  current_home = this;
  now_ns_ = clock_->NowNs();
  SetSleeping(false);  // mail that comes now is seen before we leave
}

// Passes the loop on. Before the token is free, all mail is delivered and all output is sent, or the thread will be
// woken to do it; and the thread will hear of input and of the next timer. A caller who only handed something in turns
// for nobody else, unless there is nobody else.
void Reactor::Leave(Leaving how) {
  Impl& impl = *impl_;
  bool manual = impl.inner < 0;
  int turns_max = how == Leaving::kHandedIn ? 0 : kLastTurns;
  for (int turns = 0;;) {
    SetSleeping(true);
    bool busy = HasMail() || HasOutput();
    bool alone = impl.place.load(std::memory_order_seq_cst) == kNoThread && !(manual && turns_max == 0);
    // Whoever is on his way out does not serve the whole world: the thread goes on, where there is one.
    // When there is no loop any more, nobody answers those who ring.
    if (alone) busy = !impl.mailbox.empty() || HasOutput();
    if (busy && (turns++ < turns_max || alone)) {
      SetSleeping(false);
      now_ns_ = clock_->NowNs();
      if (!alone) AnswerDoorbell();
      Turn();
      continue;
    }
    if (impl.place.load(std::memory_order_seq_cst) == kAtOuter && !impl.guards.load(std::memory_order_seq_cst))
      SetOuter(true);
    int64_t next_ns = busy ? 0 : timers_.NextNs();
    current_home = nullptr;
    impl.token.store(0, std::memory_order_seq_cst);
    // From here on somebody else may be at home.
    bool earlier = next_ns < impl.thread_wakes_ns.load(std::memory_order_seq_cst);
    if (earlier || impl.closing.load(std::memory_order_seq_cst)) WakeThread();
    // The thread may have gone to the outer epoll after we looked: then that has not been armed, and we come back for
    // it. And mail that comes after the end, while we were inside, was left to us by its sender.
    bool unarmed = impl.place.load(std::memory_order_seq_cst) == kAtOuter &&
                   !impl.outer_armed.load(std::memory_order_seq_cst) && !impl.guards.load(std::memory_order_seq_cst);
    bool orphaned = impl.ended.load(std::memory_order_seq_cst) && !impl.mailbox.empty();
    if (!(unarmed || orphaned) || !TryEnter()) return;
  }
}

// Any thread.
void Reactor::WakeThread() {
  int place = impl_->place.load(std::memory_order_seq_cst);
  if (place == kAtOuter) WriteEvent(impl_->kick_fd);
  if (place == kAtInner) WriteEvent(impl_->wake_fd);
}

void Reactor::SetOuter(bool armed) {
  Impl& impl = *impl_;
  if (impl.outer < 0 || impl.outer_armed.load(std::memory_order_relaxed) == armed) return;
  epoll_event event = {};
  event.events = armed ? EPOLLIN | EPOLLONESHOT : 0;
  event.data.u64 = static_cast<uint64_t>(impl.inner);
  impl.outer_armed.store(armed, std::memory_order_seq_cst);
  FUSEWIRE_CHECK(epoll_ctl(impl.outer, EPOLL_CTL_MOD, impl.inner, &event) == 0);
}

// ---- the reactor's own thread ----

void* Reactor::ThreadEntry(void* self) {
  static_cast<Reactor*>(self)->ThreadMain();
  return nullptr;
}

void Reactor::ThreadMain() {
  std::string name = options_.name.substr(0, 15);  // the kernel's limit
  pthread_setname_np(pthread_self(), name.c_str());
  if (options_.cpu >= 0) {
    Status pinned = PinThisThread(options_.cpu);
    if (!pinned.ok())
      FUSEWIRE_LOG(kWarn, "reactor %s runs unpinned: %s", options_.name.c_str(), pinned.ToString().c_str());
  }
  if (TryEnter()) {
    impl_->place.store(kRunning, std::memory_order_seq_cst);
  } else {
    ComeHome(true);
  }
  ThreadRun();
  Impl& impl = *impl_;
  impl.place.store(kNoThread, std::memory_order_seq_cst);
  impl.ended.store(true, std::memory_order_seq_cst);
  Turn();
  Leave();
}

void Reactor::ThreadRun() {
  Impl& impl = *impl_;
  for (;;) {
    Turn();
    if (impl.closing.load(std::memory_order_acquire)) return;
    if (MoreToDo()) continue;
    bool wanted = impl.callers_waiting.load(std::memory_order_relaxed) > 0;
    if (!wanted && Spin(kForeverNs)) continue;
    ParkThread();
  }
}

// Gives the loop away and sleeps until there is something to do and the loop is free; returns at home.
void Reactor::ParkThread() {
  Impl& impl = *impl_;
  bool to_outer = impl.callers_waiting.load(std::memory_order_relaxed) > 0 ||
                  now_ns_ < impl.lease_ns.load(std::memory_order_relaxed);
  if (impl.doorbell != nullptr) impl.doorbell->Sweep();
  impl.SayWhenThreadWakes(to_outer && !options_.busy_poll, now_ns_, timers_.NextNs());
  impl.place.store(to_outer ? kAtOuter : kAtInner, std::memory_order_seq_cst);
  Leave();
  ComeHome(to_outer);
}

// Sleeps until there is something to do and the loop is free; returns at home.
void Reactor::ComeHome(bool to_outer) {
  Impl& impl = *impl_;
  for (;;) {
    epoll_event events[kEventsPerPoll];
    int64_t now_ns = clock_->NowNs(), until_ns = impl.thread_wakes_ns.load(std::memory_order_relaxed);
    const bool guarded = impl.guards.load(std::memory_order_relaxed);
    if (guarded) until_ns = impl.left_ns.load(std::memory_order_relaxed) + kGuardNs;
    // Who polls only makes way for callers who poll instead.
    if (options_.busy_poll) until_ns = std::min(until_ns, std::max(impl.lease_ns.load(), AddNs(now_ns, kLookAgainNs)));
    int count = epoll_wait(to_outer ? impl.outer : impl.inner, events, kEventsPerPoll, TimeoutMs(now_ns, until_ns));
    if (guarded) {
      if (count == 0 && impl.IsHot(clock_->NowNs())) continue;
      impl.guards.store(false, std::memory_order_seq_cst);  // whoever leaves from now on sees to it that input wakes us
    }
    if (to_outer) {
      // The one shot is spent. Said before we try to enter, so that whoever is inside instead of us arms it again.
      if (count > 0) impl.outer_armed.store(false, std::memory_order_seq_cst);
      ReadEvent(impl.kick_fd);
    }
    if (TryEnter()) {
      impl.parks.Add();
      if (!to_outer || count < 0) {
        AfterPark(count, events);
      } else if (count > 0) {
        impl.spin.Parked(now_ns_ - impl.idle_since_ns);
      }
      break;
    }
    if (!to_outer) PassOn(count, events);
    // A caller runs the loop. It hears of input and time itself, and arms the outer epoll when it leaves, unless its
    // like come back so soon that we had better look by the clock.
    to_outer = true;
    impl.SayWhenThreadWakes(!options_.busy_poll, clock_->NowNs(), kForeverNs);
    impl.place.store(kAtOuter, std::memory_order_seq_cst);
    if (TryEnter()) break;  // it left before it could know where we are
  }
  impl.place.store(kRunning, std::memory_order_seq_cst);
  if (to_outer) PollFds();
}

}  // namespace reactor
}  // namespace fusewire
