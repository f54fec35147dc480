// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The reactor's own thread: runs the loop unless a caller does, and looks after it in between.
// Home: any thread. Owns: the thread. Fails: Start with the error of pthread_create.
#pragma once

#include <pthread.h>

#include "fusewire/reactor/handover.h"

namespace fusewire::reactor {

class LoopThread {
 public:
  explicit LoopThread(Handover& handover) : handover_(handover), loop_(handover.loop()) {}
  LoopThread(const LoopThread&) = delete;
  LoopThread& operator=(const LoopThread&) = delete;
  ~LoopThread();  // after Join

  // 0, or the error.
  int Start();
  // Once the loop has been asked to end. May be repeated.
  void Join();

 private:
  static void* Entry(void* self);
  void Main();
  void Run();
  void Park();
  void ComeHome(ThreadPlace place);

  Handover& handover_;
  Loop& loop_;
  pthread_t thread_ = {};
  bool started_ = false;
};

}  // namespace fusewire::reactor
