// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The options of a call, and whether it has been cancelled. TensorFlow's CallOptions do not store that: a cancel that
// comes before the cancel callback is set is lost.
// Home: any thread. Owns: the options.
#pragma once

#include <atomic>

#include <tensorflow/core/distributed_runtime/call_options.h>

namespace fusewire::tf {

class KeptCancel {
 public:
  tensorflow::CallOptions* options() { return &options_; }
  void Cancel() {
    is_cancelled_ = true;
    options_.StartCancel();
  }
  // Call it after the cancel callback was set: repeats a cancel that came before.
  void PassOn() {
    if (is_cancelled_) options_.StartCancel();
  }

 private:
  tensorflow::CallOptions options_;
  std::atomic<bool> is_cancelled_{false};
};

}  // namespace fusewire::tf
