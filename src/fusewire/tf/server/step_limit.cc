// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/step_limit.h"

#include <pthread.h>

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"
#include "fusewire/base/mutex.h"

namespace fusewire::tf {

// Lives as long as the process: it waits for steps, and each step ends with its caller.
class LimitThread {
 public:
  static LimitThread& Get() {
    static auto* thread = new LimitThread;
    return *thread;
  }

  void Add(StepLimit* step, int64_t due_ns) {
    MutexLock lock(mutex_);
    step->due_ns_ = due_ns;
    steps_.insert({due_ns, step});
    // It sleeps until the earliest limit that it knew, even if that step has ended: so few steps have to wake it.
    if (due_ns < awake_ns_) changed_.NotifyAll();
  }

  void Remove(StepLimit* step) {
    MutexLock lock(mutex_);
    while (cancelled_ == step) changed_.Wait(mutex_);
    const size_t removed = steps_.erase({step->due_ns_, step});
    FUSEWIRE_CHECK(removed == 1);
  }

 private:
  static constexpr int64_t kAgainNs = 20 * kMillisecondNs;

  LimitThread() {
    std::thread([this] { Work(); }).detach();
  }

  void Work() {
    pthread_setname_np(pthread_self(), "fusewire/limits");
    MutexLock lock(mutex_);
    while (true) {
      awake_ns_ = steps_.empty() ? kForeverNs : steps_.begin()->first;
      if (awake_ns_ == kForeverNs) {
        changed_.Wait(mutex_);
      } else if (awake_ns_ > Clock::Real()->NowNs()) {
        changed_.WaitUntil(mutex_, awake_ns_);
      } else {
        StepLimit* step = Begin();
        lock.Unlock();  // a step's cancellation may take long, or begin another step
        step->call_->StartCancel();
        lock.Lock();
        cancelled_ = nullptr;
        changed_.NotifyAll();
      }
    }
  }

  // To cancel the first step, and when to do it again.
  StepLimit* Begin() FUSEWIRE_REQUIRES(mutex_) {
    StepLimit* step = steps_.begin()->second;
    steps_.erase(steps_.begin());
    step->due_ns_ = AddNs(Clock::Real()->NowNs(), kAgainNs);
    steps_.insert({step->due_ns_, step});
    step->has_passed_.store(true, std::memory_order_release);
    cancelled_ = step;
    return step;
  }

  Mutex mutex_;
  CondVar changed_;
  std::set<std::pair<int64_t, StepLimit*>> steps_ FUSEWIRE_GUARDED_BY(mutex_);
  const StepLimit* cancelled_ FUSEWIRE_GUARDED_BY(mutex_) = nullptr;  // being cancelled now
  int64_t awake_ns_ FUSEWIRE_GUARDED_BY(mutex_) = kForeverNs;
};

StepLimit::StepLimit(tensorflow::CallOptions* call, int64_t limit_ms) : call_(call), is_limited_(limit_ms > 0) {
  if (!is_limited_) return;
  const int64_t limit_ns = std::min(limit_ms, kForeverNs / kMillisecondNs) * kMillisecondNs;
  LimitThread::Get().Add(this, AddNs(Clock::Real()->NowNs(), limit_ns));
}

StepLimit::~StepLimit() {
  if (is_limited_) LimitThread::Get().Remove(this);
}

}  // namespace fusewire::tf
