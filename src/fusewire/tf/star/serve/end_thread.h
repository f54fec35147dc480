// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A thread that destroys objects whose destructors may wait, for threads that must not: a pool's, a reactor's. It
// starts with the first object. Home: any thread. Owns: the thread, and the objects that were left to it.
#pragma once

#include <deque>
#include <functional>
#include <thread>

#include "fusewire/base/mutex.h"

namespace fusewire::tf {

class EndThread {
 public:
  EndThread() = default;
  ~EndThread();  // waits until all objects are destroyed
  EndThread(const EndThread&) = delete;

  void Leave(std::function<void()> end);

 private:
  void Work();

  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> ends_ FUSEWIRE_GUARDED_BY(mutex_);
  bool is_closing_ FUSEWIRE_GUARDED_BY(mutex_) = false;
  std::thread thread_ FUSEWIRE_GUARDED_BY(mutex_);
};

}  // namespace fusewire::tf
