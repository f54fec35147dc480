// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/serve/arrivals.h"

#include "fusewire/base/check.h"
#include "fusewire/tf/receive/step_context.h"

namespace fusewire::tf {

bool Arrivals::Add(size_t index) {
  MutexLock lock(mutex_);
  ended_.push_back(index);
  any_.store(true, std::memory_order_release);
  if (is_alone_) {
    is_alone_ = false;
    return true;
  }
  if (is_awaited_) {
    is_awaited_ = false;
    waiter_.Signal();
  }
  return false;
}

void Arrivals::Take(std::vector<size_t>* ended) {
  ended->clear();
  MutexLock lock(mutex_);
  ended->swap(ended_);
  any_.store(false, std::memory_order_release);
}

bool Arrivals::Await(reactor::Reactor* loop, int64_t until_ns, std::vector<size_t>* ended) {
  if (!any() && (StepThread::held() > 0 || Clock::Real()->NowNs() < until_ns)) {
    {
      MutexLock lock(mutex_);
      FUSEWIRE_DCHECK(!is_awaited_ && !is_alone_);
      waiter_.Reset();
      is_awaited_ = ended_.empty();
      if (!is_awaited_) waiter_.Signal();
    }
    // Either way, the code below checks whether something has come.
    StepThread::Wait(&waiter_, until_ns, loop);
  }
  ended->clear();
  MutexLock lock(mutex_);
  is_awaited_ = false;
  if (ended_.empty()) {
    is_alone_ = true;
    return false;
  }
  ended->swap(ended_);
  any_.store(false, std::memory_order_release);
  return true;
}

bool HoldTimes::StartsBefore(size_t operation, size_t calls, Run* run) {
  if (calls == run->calls) return false;
  run->calls = calls;
  run->holdings.push_back({operation, Clock::Real()->NowNs()});
  const bool is_long = mean_ns_[operation].load(std::memory_order_relaxed) >= kLongNs;
  if (is_long) run->calls = 0;
  return is_long;
}

void HoldTimes::Learn(Run* run) {
  const int64_t now_ns = run->holdings.empty() ? 0 : Clock::Real()->NowNs();
  for (const Run::Holding& holding : run->holdings) {
    std::atomic<int64_t>& mean_ns = mean_ns_[holding.operation];
    const int64_t before_ns = mean_ns.load(std::memory_order_relaxed), held_ns = now_ns - holding.since_ns;
    mean_ns.store(before_ns == 0 ? held_ns : before_ns + (held_ns - before_ns) / 4, std::memory_order_relaxed);
  }
  run->holdings.clear();
  run->calls = 0;
}

}  // namespace fusewire::tf
