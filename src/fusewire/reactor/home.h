// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Home is what the objects of one reactor ask of its loop: the time, timers, output at the end of a turn, input from
// descriptors, and a place for objects that all connections share.
// Home: itself. Other threads reach it through the Reactor that it is a part of (reactor.h).
// Owns: the timer wheel, the poller, the residents. Not the timers, the flushables, the handlers or their descriptors.
// Fails: Watch, with the reason.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "fusewire/base/clock.h"
#include "fusewire/base/list.h"
#include "fusewire/base/status.h"
#include "fusewire/base/unique_function.h"
#include "fusewire/reactor/options.h"
#include "fusewire/reactor/poller.h"
#include "fusewire/reactor/timer_wheel.h"

namespace fusewire::reactor {

using Task = UniqueFunction<void()>;

// Something that gathers output during one turn of the loop and sends it at the turn's end.
class Flushable : public ListNode {
 public:
  virtual void Flush() = 0;  // at home

 protected:
  ~Flushable() = default;
};

// Something that an upper room keeps once for each home, for all that live there; it goes with the home.
class Resident {
 public:
  virtual ~Resident() = default;  // at home
};

// The output of a turn: what is to be flushed at its end.
class Output {
 public:
  void Later(Flushable* flushable) {
    if (!flushable->linked()) later_.PushBack(flushable);
  }
  bool empty() const { return later_.empty(); }
  // Those that are there now; one that they add waits for the next Flush.
  void Flush();

 private:
  List<Flushable> later_;
};

// The state that the objects of a home share with its loop.
struct HomeParts {
  HomeParts(const Options& options_in, Clock* clock_in);
  const Options options;
  Clock* const clock;
  int64_t now_ns;
  int64_t idle_ns = 0;
  TimerWheel timers;
  Output output;
  Poller poller;
  bool handing_in = false;
  std::map<const void*, std::unique_ptr<Resident>> residents;
};

class Home;
// The home of this thread, if it is at one. Handover sets it (handover.h). Not thread_local: without constinit, which
// C++17 does not have, each access would first ask whether it is initialized.
extern __thread const Home* current_home;

class Home {
 public:
  Home(const Home&) = delete;
  Home& operator=(const Home&) = delete;

  // Any thread.
  bool AtHome() const;
  // Any thread. True inside a callback of some reactor, where no thread may wait.
  static bool InsideAny();
  Clock* clock() const { return parts_.clock; }
  const std::string& name() const { return parts_.options.name; }
  bool busy_poll() const { return parts_.options.busy_poll; }

  // At home. The time of this turn: good enough for timeouts, and free.
  int64_t now_ns() const { return parts_.now_ns; }
  // At home. When the loop last ran out of work.
  int64_t idle_ns() const { return parts_.idle_ns; }
  // At home. Level-triggered; `events` of epoll.
  Status Watch(int fd, uint32_t events, FdHandler* handler);
  void Rewatch(int fd, uint32_t events, FdHandler* handler);
  void Unwatch(int fd, FdHandler* handler);
  // At home. The one that input came from last: the loop asks it first while it spins.
  void SetHot(FdHandler* handler) { parts_.poller.SetHot(handler); }
  void ForgetHot(FdHandler* handler) { parts_.poller.ForgetHot(handler); }
  // At home. What is kept here under this key, or null; the address of something of the keeper's makes a key.
  Resident* resident(const void* key) const;
  void Keep(const void* key, std::unique_ptr<Resident> resident);
  // At home.
  void Arm(Timer* timer, int64_t delay_ns) { parts_.timers.Arm(timer, AddNs(parts_.now_ns, delay_ns)); }
  void ArmAt(Timer* timer, int64_t due_ns) { parts_.timers.Arm(timer, due_ns); }
  static void Disarm(Timer* timer) { TimerWheel::Disarm(timer); }
  // Manual reactors: when a timer is due next.
  int64_t NextTimerNs() const { return parts_.timers.NextNs(); }
  // At home. We are in TryRunHere: the caller may hold locks, and no other object's callback may run.
  bool handing_in() const { return parts_.handing_in; }
  // At home. Flush() will be called once at the end of this turn.
  void FlushLater(Flushable* flushable) { parts_.output.Later(flushable); }

 protected:
  Home(const Options& options, Clock* clock);
  ~Home() = default;
  HomeParts& parts() { return parts_; }
  const HomeParts& parts() const { return parts_; }

 private:
  HomeParts parts_;
};

}  // namespace fusewire::reactor

// The first line of a method that may only run at the home of `reactor`.
#define FUSEWIRE_AT_HOME(reactor) FUSEWIRE_DCHECK((reactor).AtHome())
