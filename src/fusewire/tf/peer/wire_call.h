// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One call of TensorFlow's WorkerService over a Channel: protobuf there, status and protobuf back.
// Home: the channel's, from Start until its end. Owns: itself, until its end. Fails: as gRPC does, through `done`.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <absl/status/status.h>
#include <google/protobuf/message_lite.h>
#include <tensorflow/core/distributed_runtime/call_options.h>
#include <tensorflow/core/distributed_runtime/message_wrappers.h>
#include <tensorflow/core/distributed_runtime/worker_interface.h>

#include "fusewire/observe/event.h"
#include "fusewire/rpc/rpc.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/heads/calls.h"
#include "fusewire/tf/peer/channel.h"

namespace fusewire::tf {

// The RunGraph calls of one step, which a master starts one after the other on one thread. When one fails, TensorFlow
// cancels all of them once; a call that is started later is not cancelled, and may wait forever for tensors from the
// failed one. Here such a call is cancelled as soon as it is started. And the step's error is that of the call which
// has failed, not of those that were cancelled. Home: any thread. Owns: whether one of a step has failed.
class StepCalls {
 public:
  // On the master's thread, which keeps `options` and `response` until all calls of the step are done. `start(done)`
  // starts the call, and makes `options` cancel it from then on.
  template <class F>
  static void Start(int64_t step, tensorflow::CallOptions* options,
                    tensorflow::MutableRunGraphResponseWrapper* response, tensorflow::StatusCallback done, F start) {
    const Flag has_failed = FlagOf(step);
    start([has_failed, response, done = std::move(done)](const TfStatus& status) {
      // A worker puts its own errors into the response.
      const TfStatus error = status.ok() ? response->status() : status;
      const bool is_second = !error.ok() && has_failed->exchange(true, std::memory_order_acq_rel);
      if (!is_second || !absl::IsCancelled(error)) return done(status);
      // Cancelled because another call has failed, whose error is the step's: TensorFlow takes either of two. A
      // response can't say that its error is derived.
      response->set_status(TfStatus());
      done(tensorflow::StatusGroup::MakeDerived(error));
    });
    if (has_failed->load(std::memory_order_acquire)) options->StartCancel();
  }

 private:
  // shared by the thread and each call: any of them may be the last.
  using Flag = std::shared_ptr<std::atomic<bool>>;

  // Of all calls of the step, to its own worker and to others.
  static Flag FlagOf(int64_t step);
};

// The options of a call, and whether it has been cancelled. TensorFlow's CallOptions do not store that: a cancel that
// comes before the cancel callback is set is lost.
// Home: any thread. Owns: the options.
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

class WireCall : public rpc::Call {
 public:
  // `name` is the method's in errors. `options` may be null; it and `response` live until `done`.
  WireCall(ChannelPtr channel, MethodNumber number, const char* name, tensorflow::CallOptions* options,
           google::protobuf::MessageLite* response, tensorflow::StatusCallback done);

  // The bytes before the protobuf, if any.
  std::string* text() { return &text_; }
  // `fail_fast` false: waits for the peer as long as it takes.
  void Start(const google::protobuf::MessageLite& request);

 protected:
  ~WireCall() override = default;
  void OnDone(Status status) override;

 private:
  TfStatus Read();

  const ChannelPtr channel_;
  const char* const name_;
  tensorflow::CallOptions* const options_;
  google::protobuf::MessageLite* const response_;
  tensorflow::StatusCallback done_;
  std::string text_;
  observe::Event event_;
};

}  // namespace fusewire::tf
