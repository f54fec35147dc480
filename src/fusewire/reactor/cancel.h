// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A CancelToken is how a caller gives up what a thread waits for: Cancel wakes every wait that looks at the token, at
// once. A wait hooks in what wakes it (a mail home, a bell in shared memory, an eventfd); nothing is polled.
//   caller: CancelToken token;  thing.Run(..., &token);        any thread: token.Cancel()
//   wait:   CancelHook hook(token, [..] { wake me });  ... token->cancelled() ...
// Home: any thread. Owns: nothing; the token outlives its hooks: that is checked.
// One caller cannot be notified by Cancel: an interpreter, whose handlers of signals (SIGINT) run only when the thread
// that waits asks it. Its token has an Asking. A signal interrupts the sleep of the thread that it finds asleep, which
// then asks at once. kAskNs bounds the rest: a signal that comes just before the sleep, or to another thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"
#include "fusewire/base/list.h"
#include "fusewire/base/mutex.h"
#include "fusewire/base/unique_function.h"
#include "fusewire/reactor/waiter.h"

namespace fusewire::reactor {

class CancelHook;

// How long a signal that interrupts no sleep may go unnoticed.
constexpr int64_t kAskNs = 200 * kMillisecondNs;

class CancelToken {
 public:
  // By the thread that waits; true: it gives up.
  using Asking = std::function<bool()>;
  CancelToken() = default;
  explicit CancelToken(Asking asking) : asking_(std::move(asking)) {}
  ~CancelToken();
  CancelToken(const CancelToken&) = delete;
  CancelToken& operator=(const CancelToken&) = delete;

  // Any thread; may be repeated. Calls the hooks, on this thread.
  void Cancel();
  bool cancelled() const { return cancelled_.load(std::memory_order_seq_cst); }

  // ---- for the thread that waits ----
  // Asks, if the token has an Asking. True: it is cancelled.
  bool Ask();
  // Until when it may wait before it asks, and whether a signal ends its sleep.
  int64_t NextAskNs(int64_t now_ns) const { return asking_ ? AddNs(now_ns, kAskNs) : kForeverNs; }
  Interrupts interrupts() const { return asking_ ? Interrupts::kEndWait : Interrupts::kGoOn; }

 private:
  friend class CancelHook;
  // False: it is cancelled.
  bool Add(CancelHook* hook);
  void Remove(CancelHook* hook);

  const Asking asking_;
  std::atomic<bool> cancelled_{false};
  Mutex mutex_;
  CondVar called_;
  List<CancelHook> hooks_ FUSEWIRE_GUARDED_BY(mutex_);
  const CancelHook* calling_ FUSEWIRE_GUARDED_BY(mutex_) = nullptr;  // outside of the lock
  std::thread::id caller_ FUSEWIRE_GUARDED_BY(mutex_);
};

// Calls `on_cancel` when the token is cancelled, once, on the thread that cancels; at once, if it was cancelled before.
class CancelHook : public ListNode {
 public:
  // A null token is never cancelled.
  CancelHook(CancelToken* token, UniqueFunction<void()> on_cancel);
  // Not in `on_cancel`, which neither runs nor will when this returns: so the caller holds no lock that it takes.
  ~CancelHook();

 private:
  friend class CancelToken;
  CancelToken* const token_;
  UniqueFunction<void()> on_cancel_;
};

}  // namespace fusewire::reactor
