// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Cancels a step whose time is up. TensorFlow cancels it once, which has no effect on a step that is still being
// prepared (placed, cut, registered with its workers): it then runs without a limit, perhaps forever. Here a step is
// cancelled again and again until it ends.
// Home: any thread; cancels on a thread of its own, `fusewire/limits`, one for the process.
#pragma once

#include <atomic>
#include <cstdint>

#include <tensorflow/core/distributed_runtime/call_options.h>

namespace fusewire::tf {

class StepLimit {
 public:
  // The limit counts from now on; 0: none. `call` is the step's, and outlives this.
  StepLimit(tensorflow::CallOptions* call, int64_t limit_ms);
  ~StepLimit();  // no cancel after it
  StepLimit(const StepLimit&) = delete;
  StepLimit& operator=(const StepLimit&) = delete;

  bool HasPassed() const { return has_passed_.load(std::memory_order_acquire); }

 private:
  friend class LimitThread;

  tensorflow::CallOptions* const call_;
  const bool is_limited_;
  std::atomic<bool> has_passed_{false};
  int64_t due_ns_ = 0;  // the limit thread's
};

}  // namespace fusewire::tf
