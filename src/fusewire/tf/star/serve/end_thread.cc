// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/serve/end_thread.h"

#include <pthread.h>

#include <utility>

namespace fusewire::tf {

EndThread::~EndThread() {
  std::thread ending;
  {
    MutexLock lock(mutex_);
    is_closing_ = true;
    ending = std::move(thread_);
  }
  changed_.NotifyAll();
  if (ending.joinable()) ending.join();
}

void EndThread::Leave(std::function<void()> end) {
  {
    MutexLock lock(mutex_);
    ends_.push_back(std::move(end));
    if (!thread_.joinable() && !is_closing_) thread_ = std::thread([this] { Work(); });
  }
  changed_.NotifyOne();
}

void EndThread::Work() {
  pthread_setname_np(pthread_self(), "fusewire/ends");  // its maker's otherwise
  MutexLock lock(mutex_);
  for (;;) {
    while (ends_.empty()) {
      if (is_closing_) return;
      changed_.Wait(mutex_);
    }
    std::function<void()> end = std::move(ends_.front());
    ends_.pop_front();
    lock.Unlock();
    end();
    end = nullptr;
    lock.Lock();
  }
}

}  // namespace fusewire::tf
