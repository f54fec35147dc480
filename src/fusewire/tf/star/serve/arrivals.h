// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The kernels of a run that have ended on other threads, until the run's own thread takes them. That thread drives a
// reactor's loop while it waits. If it has waited too long it abandons the run, and the thread that adds the next
// kernel takes over.
// Home: Add from any thread; the rest is for the run's thread. Owns: a list of numbers. Fails: never.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "fusewire/base/clock.h"
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

// Calls that a run's thread holds are started when the thread waits. This learns how long that takes after each
// operation that the thread computes meanwhile: if it is long, the calls are started before the operation instead. That
// costs a wake-up of the loop's own thread, and another one at the answer.
// Home: any thread; a Run is its thread's. Owns: a time for each operation. Fails: never.
class HoldTimes {
 public:
  static constexpr int64_t kLongNs = 100 * kMicrosecondNs;

  explicit HoldTimes(size_t operations) : mean_ns_(std::make_unique<std::atomic<int64_t>[]>(operations)) {}

  struct Run {
    struct Holding {
      size_t operation;
      int64_t since_ns;
    };
    std::vector<Holding> holdings;  // since the thread waited last
    size_t calls = 0;               // held at the last of them
  };
  // `calls` are held, and `operation` is computed next. True: they are to be started now.
  bool StartsBefore(size_t operation, size_t calls, Run* run);
  // The thread is about to wait.
  void Learn(Run* run);

 private:
  const std::unique_ptr<std::atomic<int64_t>[]> mean_ns_;
};

}  // namespace fusewire::tf
