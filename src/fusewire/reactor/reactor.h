// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Reactor is one home: a loop that owns its connections, its timers and its memory. Nothing in it is shared.
// Home: the thread that runs the loop at this moment; there is one at a time. Usually that is the reactor's own thread;
//   a caller that waits for its own answer may run an idle loop itself (Wait), and a caller that only wants to hand
//   something in may do that on the spot (TryRunHere). See docs/threads.md.
// Owns: an epoll, a mailbox, a timer wheel. Fails: Start says why; a running reactor does not fail.
#ifndef FUSEWIRE_REACTOR_REACTOR_H_
#define FUSEWIRE_REACTOR_REACTOR_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "fusewire/base/clock.h"
#include "fusewire/base/list.h"
#include "fusewire/base/mailbox.h"
#include "fusewire/base/status.h"
#include "fusewire/base/unique_function.h"
#include "fusewire/reactor/timer_wheel.h"

namespace fusewire {
namespace reactor {

using Task = UniqueFunction<void()>;

struct Options {
  std::string name = "fusewire";
  // Never park: lowest latency, one processor spent.
  bool busy_poll = false;
  // The longest spin before parking; the loop learns by itself whether it pays. 0: park at once.
  int64_t spin_ns_max = 50 * kMicrosecondNs;
  // The processor to pin the reactor's thread to, or -1. Where pinning is not allowed, a log line says so and all goes
  // on.
  int cpu = -1;
};

// Something with a file descriptor. Its holder unwatches it before it closes the descriptor or dies.
class FdHandler {
 public:
  virtual void OnEvents(uint32_t epoll_events) = 0;  // at home
  // At home, while the loop spins: look for input without asking epoll. True if there was some.
  virtual bool PollNow() { return false; }

 protected:
  ~FdHandler() = default;
};

// Something that gathers output during one turn of the loop and sends it at the turn's end.
class Flushable : public ListNode {
 public:
  virtual void Flush() = 0;  // at home

 protected:
  ~Flushable() = default;
};

// What somebody above keeps once for each home, for all who live there; it goes with the home.
class Resident {
 public:
  virtual ~Resident() = default;  // at home
};

class Doorbell;
class Reactor;

// One caller's wait for one event; the word lives with the caller.
class Waiter {
 public:
  // Any thread. After it, the waiter may be gone.
  void Signal();
  bool signalled() const { return word_.load(std::memory_order_acquire) == kDone; }

 private:
  friend class Reactor;
  // kAsleep: in the word itself. kInside: in the loop that he runs. kWaking: the signal is waking him there.
  static constexpr uint32_t kPending = 0, kAsleep = 1, kInside = 2, kWaking = 3, kDone = 4;
  bool BeginInside(Reactor* loop);
  void EndInside();
  std::atomic<uint32_t> word_{kPending};
  Reactor* loop_ = nullptr;
};

struct Stats {
  uint64_t turns = 0;        // of the loop
  uint64_t parks = 0;        // waits in the kernel
  uint64_t spin_hits = 0;    // spins that saved a park
  uint64_t spin_misses = 0;  // spins in vain
  uint64_t wakes = 0;        // system calls to wake a parked loop
  uint64_t mails = 0;
  uint64_t drives = 0;  // turns taken over by waiting callers
  uint64_t watched = 0;
};

// What a caller who waits does with his processor before he sleeps.
enum class Idling {
  kLearned,  // what has paid so far
  kSpins,    // looks for work: whom he waits for works at the same time, on another processor
  kYields,   // looks for work, and lets others run in between: whom he waits for may need this very processor
};

class Reactor {
 public:
  // Starts a thread.
  static Result<std::unique_ptr<Reactor>> Start(const Options& options);
  // No thread, no descriptors: a test or a simulation turns it with RunManually().
  static std::unique_ptr<Reactor> MakeManual(Clock* clock);
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // Any thread. Delivered once, in order per sender. After the loop's end a sender delivers, so that nothing is lost.
  void Post(Mail* mail);
  void Post(Task task);
  // Any thread. Runs `task` at once on this thread if the loop is idle, and sends what it wants sent; nothing else, so
  // that a caller may hold his locks. False (and `task` is untouched) if the loop is not idle, if it has mail that came
  // first, or if this thread is inside another loop: then Post.
  bool TryRunHere(Task& task);
  // Any thread. Runs `task` at home and returns when it has run; at home already, at once. For setting up and taking
  // down.
  void Run(Task task);
  // Any thread but a home. Waits for the waiter's signal; meanwhile runs the loop here if it is idle. False: the
  // deadline came first.
  bool Wait(Waiter* waiter, int64_t deadline_ns, Idling idling = Idling::kLearned);
  // As Post and then Wait, in one go: an idle loop takes the mail from this thread and is driven by it at once.
  bool PostAndWait(Mail* mail, Waiter* waiter, int64_t deadline_ns, Idling idling = Idling::kLearned);
  // Any thread.
  bool AtHome() const;
  // Any thread. True inside a callback of some reactor, where nobody may wait.
  static bool InsideAny();
  Clock* clock() const { return clock_; }
  const std::string& name() const { return options_.name; }
  bool busy_poll() const { return options_.busy_poll; }
  Stats Snapshot() const;

  // At home. The time of this turn: good enough for timeouts, and free.
  int64_t now_ns() const { return now_ns_; }
  // At home. Level-triggered; `events` of epoll.
  Status Watch(int fd, uint32_t events, FdHandler* handler);
  void Rewatch(int fd, uint32_t events, FdHandler* handler);
  void Unwatch(int fd, FdHandler* handler);
  // At home. The one that input came from last: the loop asks it first while it spins.
  void SetHot(FdHandler* handler) { hot_ = handler; }
  void ForgetHot(FdHandler* handler) {
    if (hot_ == handler) hot_ = nullptr;
  }
  // At home. How other processes wake this loop (doorbell.h); made when first asked for, kept until the reactor goes.
  Result<Doorbell*> OpenDoorbell();
  // At home. What is kept here under this key, or null; the address of something of the keeper's makes a key.
  Resident* resident(const void* key) const;
  void Keep(const void* key, std::unique_ptr<Resident> resident);
  // At home.
  void Arm(Timer* timer, int64_t delay_ns) { timers_.Arm(timer, AddNs(now_ns_, delay_ns)); }
  void ArmAt(Timer* timer, int64_t due_ns) { timers_.Arm(timer, due_ns); }
  static void Disarm(Timer* timer) { TimerWheel::Disarm(timer); }
  // At home. We are in TryRunHere: the caller may hold locks, and nobody else's callback may run.
  bool handing_in() const { return handing_in_; }
  // At home. Flush() will be called once at the end of this turn.
  void FlushLater(Flushable* flushable) {
    if (!flushable->linked()) to_flush_.PushBack(flushable);
  }

  // At home. As FlushLater, after all of those: for what gathers the output of several connections.
  void FlushLast(Flushable* flushable) {
    if (!flushable->linked()) to_flush_last_.PushBack(flushable);
  }

  // Manual reactors: one turn. True if anything was done.
  bool RunManually();
  // Manual reactors: when a timer is due next.
  int64_t NextTimerNs() const { return timers_.NextNs(); }

  // Any thread. The loop ends after the mail that is there now. May be repeated.
  void Close();
  // Any thread but a home. Waits for the loop's end.
  void Join();

 private:
  friend class Waiter;
  struct Impl;
  explicit Reactor(const Options& options, Clock* clock);

  bool TryEnter();
  bool TryTakeOver(Waiter* waiter);
  enum class Leaving { kTurned, kHandedIn };
  void Leave(Leaving how = Leaving::kTurned);
  void WakeThread();
  void Arrive();
  bool Turn();
  bool PollFds();
  bool HasMail() const;
  void SetSleeping(bool sleeping);
  bool AnswerDoorbell();
  void PassOn(int count, const void* events);
  bool MoreToDo();
  bool TakeFds(int count, void* events);
  bool Spin(int64_t until_ns);
  void FlushAll();
  bool HasOutput() { return !to_flush_.empty() || !to_flush_last_.empty(); }
  void AfterPark(int count, void* events);
  void Wake();
  void SetOuter(bool armed);
  static void* ThreadEntry(void* self);
  void ThreadMain();
  void ThreadRun();
  void ParkThread();
  void ComeHome(bool to_outer);
  void ParkAtHome(Waiter* waiter, int64_t until_ns);
  void DriveUntil(Waiter* waiter, int64_t deadline_ns, Idling idling);
  bool AwaitSignal(Waiter* waiter, int64_t deadline_ns);

  const Options options_;
  Clock* const clock_;
  std::unique_ptr<Impl> impl_;
  int64_t now_ns_;
  TimerWheel timers_;
  List<Flushable> to_flush_, to_flush_last_;
  FdHandler* hot_ = nullptr;
  bool handing_in_ = false;
};

}  // namespace reactor
}  // namespace fusewire

// The first line of a method that may only run at the home of `reactor`.
#define FUSEWIRE_AT_HOME(reactor) FUSEWIRE_DCHECK((reactor).AtHome())

#endif  // FUSEWIRE_REACTOR_REACTOR_H_
