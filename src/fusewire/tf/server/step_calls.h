// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The RunGraph calls of one step, which a master starts one after the other on one thread. When one fails, TensorFlow
// cancels all of them once; a call that is started later is not cancelled, and may wait forever for tensors from the
// failed one. Here such a call is cancelled as soon as it is started.
// Home: any thread. Owns: whether one of a step has failed.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include <tensorflow/core/distributed_runtime/call_options.h>
#include <tensorflow/core/distributed_runtime/worker_interface.h>
#include "fusewire/tf/bridge/compat.h"

namespace fusewire::tf {

class StepCalls {
 public:
  // On the master's thread, which keeps `options` until all calls of the step are done. `start(done)` starts the call,
  // and sees to it that `options` cancel it from then on.
  template <class F>
  static void Start(int64_t step, tensorflow::CallOptions* options, tensorflow::StatusCallback done, F start) {
    thread_local StepCalls last(step);
    if (last.step_ != step) last = StepCalls(step);
    const Flag has_failed = last.has_failed_;
    start([has_failed, done = std::move(done)](const TfStatus& status) {
      if (!status.ok()) has_failed->store(true, std::memory_order_release);
      done(status);
    });
    if (has_failed->load(std::memory_order_acquire)) options->StartCancel();
  }

 private:
  // shared by the thread and each call: any of them may be the last.
  using Flag = std::shared_ptr<std::atomic<bool>>;

  explicit StepCalls(int64_t step) : step_(step) {}

  int64_t step_;
  Flag has_failed_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace fusewire::tf
