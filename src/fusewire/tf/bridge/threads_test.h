// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// For tests with many threads: a pool for TensorFlow whose locks are ours, so that ThreadSanitizer sees what they
// order, and the ends that such tests wait for.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include <tensorflow/core/platform/threadpool_interface.h>
#include "fusewire/base/clock.h"
#include "fusewire/base/mutex.h"

namespace fusewire::tf {

// Of no threads: its owner does the work, where RunHere is called.
class TestThreads final : public tensorflow::thread::ThreadPoolInterface {
 public:
  explicit TestThreads(int count) : count_(count) {
    for (int i = 0; i < count; ++i) threads_.emplace_back([this] { Run(); });
  }
  // Runs all scheduled closures first.
  ~TestThreads() override {
    {
      MutexLock lock(mutex_);
      is_closing_ = true;
    }
    changed_.NotifyAll();
    for (std::thread& thread : threads_) thread.join();
  }

  void Schedule(std::function<void()> work) override {
    {
      MutexLock lock(mutex_);
      work_.push_back(std::move(work));
    }
    changed_.NotifyAll();
  }
  // All that has been scheduled, and what that schedules: how much that was.
  int RunHere() {
    int done = 0;
    for (; std::function<void()> work = TakeFirst(); ++done) work();
    return done;
  }
  // Nothing is left to do. False: something is, after a minute.
  bool AwaitIdle() {
    const int64_t deadline_ns = AddNs(Clock::Real()->NowNs(), 60 * kSecondNs);
    MutexLock lock(mutex_);
    while (!work_.empty() || busy_ > 0) {
      if (!changed_.WaitUntil(mutex_, deadline_ns)) return work_.empty() && busy_ == 0;
    }
    return true;
  }
  int NumThreads() const override { return std::max(1, count_); }
  int CurrentThreadId() const override { return -1; }

 private:
  void Run() {
    while (std::function<void()> work = Next()) {
      work();
      work = nullptr;
      MutexLock lock(mutex_);
      --busy_;
      changed_.NotifyAll();
    }
  }
  std::function<void()> Next() {
    MutexLock lock(mutex_);
    while (work_.empty()) {
      if (is_closing_) return nullptr;
      changed_.Wait(mutex_);
    }
    ++busy_;
    return PopFirst();
  }
  std::function<void()> TakeFirst() {
    MutexLock lock(mutex_);
    return work_.empty() ? nullptr : PopFirst();
  }
  std::function<void()> PopFirst() FUSEWIRE_REQUIRES(mutex_) {
    std::function<void()> first = std::move(work_.front());
    work_.pop_front();
    return first;
  }

  const int count_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> work_ FUSEWIRE_GUARDED_BY(mutex_);
  int busy_ FUSEWIRE_GUARDED_BY(mutex_) = 0;
  bool is_closing_ FUSEWIRE_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

// Counts what has ended.
class Ends {
 public:
  void Add() {
    MutexLock lock(mutex_);
    ++count_;
    changed_.NotifyAll();
  }
  // False: not so many for a minute.
  bool Await(int count) {
    const int64_t deadline_ns = AddNs(Clock::Real()->NowNs(), 60 * kSecondNs);
    MutexLock lock(mutex_);
    while (count_ < count) {
      if (!changed_.WaitUntil(mutex_, deadline_ns)) return count_ >= count;
    }
    return true;
  }
  int count() const {
    MutexLock lock(mutex_);
    return count_;
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  int count_ FUSEWIRE_GUARDED_BY(mutex_) = 0;
};

// On so many threads at once; returns when all are done.
inline void RunTogether(int threads, const std::function<void(int thread)>& work) {
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) running.emplace_back([&work, i] { work(i); });
  for (std::thread& thread : running) thread.join();
}

}  // namespace fusewire::tf
