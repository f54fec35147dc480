// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Threads of which one is at work at a time, in an order that a seed chooses: what they do can be repeated.
// Home: any thread. Owns: the threads, while they play.
#pragma once

#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "fusewire/base/mutex.h"

namespace fusewire::tf {

class Turns {
 public:
  explicit Turns(std::mt19937* random) : random_(random) {}

  // Calls play(0), play(1), ... each on a thread of its own; returns when all have returned.
  void Play(int count, const std::function<void(int)>& play) {
    {
      MutexLock lock(mutex_);
      is_done_.assign(static_cast<size_t>(count), false);
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([this, i, &play] {
        Await(i);
        play(i);
        MutexLock lock(mutex_);
        is_done_[static_cast<size_t>(i)] = true;
        Choose();
      });
    }
    {
      MutexLock lock(mutex_);
      Choose();
    }
    for (std::thread& thread : threads) thread.join();
  }
  // By the one that is at work: another one may be, for a while.
  void Yield(int player) {
    {
      MutexLock lock(mutex_);
      Choose();
    }
    Await(player);
  }

 private:
  void Choose() FUSEWIRE_REQUIRES(mutex_) {
    std::vector<int> open;
    for (size_t i = 0; i < is_done_.size(); ++i) {
      if (!is_done_[i]) open.push_back(static_cast<int>(i));
    }
    at_work_ = open.empty() ? -1 : open[(*random_)() % open.size()];
    changed_.NotifyAll();
  }
  void Await(int player) {
    MutexLock lock(mutex_);
    while (at_work_ != player) changed_.Wait(mutex_);
  }

  std::mt19937* const random_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<bool> is_done_ FUSEWIRE_GUARDED_BY(mutex_);
  int at_work_ FUSEWIRE_GUARDED_BY(mutex_) = -1;
};

}  // namespace fusewire::tf
