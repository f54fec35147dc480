// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Handover says which thread is at home, and passes the loop on: from the reactor's thread to callers and back. See
// docs/threads.md, which draws it.
// Home: any thread, unless a comment says otherwise. Owns: the loop that is passed on, and the outer epoll, where the
//   reactor's thread waits while callers run the loop. Fails: Open with errno.
// Invariants: one thread is at home at a time, the token's holder, and a thread is at one home at most. When the token
//   is free, no mail, output, input or timer waits without a thread that is awake or will be woken for it.
#pragma once

#include <atomic>
#include <cstdint>

#include "fusewire/base/clock.h"
#include "fusewire/reactor/home.h"
#include "fusewire/reactor/loop.h"

namespace fusewire::reactor {

// Where the reactor's thread is. A thread that leaves the loop looks here to know how to pass it on.
enum class ThreadPlace : int {
  kNone,     // a manual reactor, or the thread has ended
  kRunning,  // awake: inside the loop, or about to look for it
  kAtInner,  // parked on the loop's own epoll: input wakes it
  kAtOuter,  // parked one floor above, out of the way of callers: input wakes it only while the outer epoll is armed
};

class Handover {
 public:
  // `parts` are those of `home`; both outlive this.
  Handover(const Home& home, HomeParts& parts);
  ~Handover();
  Handover(const Handover&) = delete;
  Handover& operator=(const Handover&) = delete;
  // For a reactor with a thread, which counts as parked until it reports its place.
  bool Open();

  Loop& loop() { return loop_; }
  const Loop& loop() const { return loop_; }
  LoopRequests& requests() { return loop_.requests(); }

  // ---- in and out ----
  // Comes home if no thread is, and this one is not at another home.
  bool TryEnter();
  enum class Leaving { kTurned, kHandedIn };
  // At home. Before the token is free, all mail is delivered and all output is sent, or the thread will be woken to do
  // it; and the thread will notice input and the next timer. A caller that only handed something in turns for
  // no other, unless there is no thread to do it.
  void Leave(Leaving how = Leaving::kTurned);
  // The thread has ended: the sender of mail delivers it, so that no Done is lost. Inside already, it finds the mail
  // when it leaves.
  void TurnForSender();

  // ---- callers that run the loop while they wait ----
  // For a while from `now_ns` on the thread stays out of the way: the next call of a busy caller finds the loop free.
  void Lease(int64_t now_ns);
  // A caller that has driven for long leaves the loop to the next one, whose own wait may be short.
  void AskLongDriverToLeave(int64_t now_ns);
  // At home.
  void BeginDriving();
  void EndDriving();

  // ---- the reactor's thread ----
  // Whether it had better wait where it is not in the way of callers.
  bool MustMakeWay(int64_t now_ns) const;
  // It is about to park there: with a timeout if it may have one and callers follow closely, otherwise until it is
  // woken or `else_ns`.
  void ThreadParks(ThreadPlace place, bool may_guard, int64_t now_ns, int64_t else_ns);
  // Parked at that place: returns the events that have come, and whether they are a reason to come home.
  bool AwaitWork(ThreadPlace place, PolledEvents* polled);
  void ThreadRuns() { place_.store(ThreadPlace::kRunning, std::memory_order_seq_cst); }
  // At home. From now on only senders look after the loop.
  void ThreadEnds();
  void ForgetThread() { place_.store(ThreadPlace::kNone); }

 private:
  void WakeThread();
  void SetOuter(bool armed);
  ThreadPlace place() const { return place_.load(std::memory_order_seq_cst); }
  // The thread is parked one floor above and has to be told of input.
  bool MustArm() const { return place() == ThreadPlace::kAtOuter && !loop_.requests().guarded(); }
  bool TurnBeforeLeaving(int turns_max);
  // Whether callers follow one another closely at present.
  bool IsHot(int64_t now_ns) const;
  int64_t AwakeNs(int64_t now_ns) const;

  const Home& home_;
  Loop loop_;
  std::atomic<int> token_{0};  // 1: a thread is at home
  std::atomic<ThreadPlace> place_{ThreadPlace::kNone};
  std::atomic<int64_t> lease_ns_{0};  // until then the thread parks at the outer epoll
  std::atomic<int64_t> thread_wakes_ns_{kForeverNs};
  std::atomic<int64_t> driving_since_ns_{kForeverNs};
  std::atomic<int64_t> left_ns_{0};  // when a caller drove last
  std::atomic<int> came_soon_{0};    // how often callers have come back soon; one that does not takes most of it
  // Set by the token's holder, cleared by it and by the thread that was woken. While it is set, the outer epoll is
  // armed or the thread is on its way to the token; it may be clear although the epoll is armed: that costs one
  // needless wake-up.
  std::atomic<bool> outer_armed_{false};
  int outer_ = -1;
};

}  // namespace fusewire::reactor
