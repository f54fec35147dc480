// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The kernels of a run that have ended on other threads, until the run's own thread takes them. That thread drives a
// reactor's loop while it waits. If it has waited too long it abandons the run, and the thread that adds the next
// kernel takes over.
// Home: Add from any thread; the rest is for the run's thread. Owns: a list of numbers. Fails: never.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fusewire/base/mutex.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/reactor/waiter.h"

namespace fusewire::tf {

class Arrivals {
 public:
  // True: the run was left alone, and is this thread's now.
  bool Add(size_t index);
  bool any() const { return any_.load(std::memory_order_acquire); }
  void Take(std::vector<size_t>* ended);
  // Until something has ended, which it takes. `loop` may be null. False: the time has come, the run was left alone,
  // and is not this thread's any more.
  bool Await(reactor::Reactor* loop, int64_t until_ns, std::vector<size_t>* ended);

 private:
  Mutex mutex_;
  std::vector<size_t> ended_ FUSEWIRE_GUARDED_BY(mutex_);
  bool is_awaited_ FUSEWIRE_GUARDED_BY(mutex_) = false;
  bool is_alone_ FUSEWIRE_GUARDED_BY(mutex_) = false;
  reactor::Waiter waiter_;
  std::atomic<bool> any_{false};
};

}  // namespace fusewire::tf
