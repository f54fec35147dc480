// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What a Reactor is made of. Only the files of this folder look inside.
#ifndef FUSEWIRE_REACTOR_REACTOR_IMPL_H_
#define FUSEWIRE_REACTOR_REACTOR_IMPL_H_

#include <pthread.h>

#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "fusewire/base/mailbox.h"
#include "fusewire/base/metrics.h"
#include "fusewire/reactor/doorbell.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/reactor/spin.h"

namespace fusewire {
namespace reactor {

constexpr int kEventsPerPoll = 64;

// The home of this thread, if it is at one.
extern thread_local constinit Reactor* current_home;

// Rounded up: waking early would turn the loop for nothing.
int TimeoutMs(int64_t now_ns, int64_t until_ns);
// Of an eventfd.
void WriteEvent(int fd);
void ReadEvent(int fd);
// Between two looks at memory that another thread writes.
void Pause();

// Where the reactor's thread is. Whoever leaves the loop looks here to know how to pass it on.
enum ThreadPlace : int {
  kNoThread,  // a manual reactor, or the thread has ended
  kRunning,   // awake: inside the loop, or about to look for it
  kAtInner,   // parked on the loop's own epoll: input wakes it
  kAtOuter,   // parked one floor above, out of the way of callers: input wakes it only while the outer epoll is armed
};

// A caller who comes back so soon after he left, so often, is about to come back again. The thread then looks after the
// loop when nobody has been there for kGuardNs, and whoever leaves need not see to it that input wakes it.
constexpr int64_t kSoonNs = 50 * kMicrosecondNs;
constexpr int kSoonMin = 16, kSoonMax = 64;
constexpr int64_t kGuardNs = 1 * kMillisecondNs;
// Until when a thread that looks by the clock says that it sleeps: only work that is left over is worth a kick.
constexpr int64_t kGuardWakesNs = 1;

struct Reactor::Impl {
  explicit Impl(int64_t spins_ns) : spin(spins_ns), spin_ns_max(spins_ns) {}

  struct Watched {
    FdHandler* handler = nullptr;
    uint32_t generation = 0;
  };

  Mailbox mailbox;
  std::atomic<int> token{0};            // 1: somebody is at home
  std::atomic<bool> sleeping{false};    // nobody will look at the mailbox by himself: wake
  std::atomic<int> place{kNoThread};    // a ThreadPlace
  std::atomic<int> callers_waiting{0};  // want the loop while the thread is awake in it
  std::atomic<int64_t> lease_ns{0};     // until then the thread parks at the outer epoll
  std::atomic<int64_t> thread_wakes_ns{kForeverNs};
  std::atomic<int64_t> left_ns{0};  // when a caller drove last
  std::atomic<int> came_soon{0};    // how often callers have come back soon; a caller who does not takes most of it
  std::atomic<bool> guards{false};  // the thread is at the outer epoll, or on its way there, and looks by the clock
  // Set by the token's holder, cleared by him and by the thread that was woken. While it is set, the outer epoll is
  // armed or the thread is on its way to the token; it may be clear although the epoll is armed: that costs one wake-up
  // in vain.
  std::atomic<bool> outer_armed{false};
  std::atomic<bool> closing{false};
  std::atomic<bool> ended{false};
  int inner = -1, outer = -1, wake_fd = -1, kick_fd = -1;
  pthread_t thread = {};
  bool thread_started = false;
  std::vector<Watched> watched;  // by descriptor
  uint32_t generations = 0;
  std::map<const void*, std::unique_ptr<Resident>> residents;
  std::unique_ptr<Doorbell> doorbell;   // made and used at home
  std::atomic<int> doorbell_event{-1};  // its eventfd
  SpinLearner spin;
  const int64_t spin_ns_max;
  int64_t yield_ns_max = 0;
  Idling idling = Idling::kLearned;  // of the caller who is at home
  int64_t idle_since_ns = 0;         // when the loop last ran out of work
  int looks_since_poll = 0;          // looks at mail and at the hot descriptor since epoll was asked for all the others
  // Any thread. Whether callers follow one another closely at present.
  bool IsHot(int64_t now_ns) const {
    return came_soon.load(std::memory_order_relaxed) >= kSoonMin &&
           now_ns - left_ns.load(std::memory_order_relaxed) < kGuardNs;
  }
  // The thread is about to park: by the clock, where it may and callers are hot, or else until it is woken or
  // `else_ns`.
  void SayWhenThreadWakes(bool may_guard, int64_t now_ns, int64_t else_ns) {
    const bool by_the_clock = may_guard && IsHot(now_ns);
    guards.store(by_the_clock, std::memory_order_seq_cst);
    thread_wakes_ns.store(by_the_clock ? kGuardWakesNs : else_ns, std::memory_order_seq_cst);
  }
  Counter turns, parks, spin_hits, spin_misses, mails, drives, watches;
  std::atomic<uint64_t> wakes{0};
};

}  // namespace reactor
}  // namespace fusewire

#endif  // FUSEWIRE_REACTOR_REACTOR_IMPL_H_
