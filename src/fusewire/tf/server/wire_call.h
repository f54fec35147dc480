// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One call of TensorFlow's WorkerService over a Channel: protobuf there, status and protobuf back.
// Home: the channel's, from Start until its end. Owns: itself, until its end. Fails: in gRPC's words, through `done`.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <google/protobuf/message_lite.h>
#include <tensorflow/core/distributed_runtime/call_options.h>
#include <tensorflow/core/distributed_runtime/worker_interface.h>
#include "fusewire/observe/recorder.h"
#include "fusewire/rpc/rpc.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/bridge/proto.h"
#include "fusewire/tf/peer/channel.h"
#include "fusewire/tf/peer/methods.h"

namespace fusewire::tf {

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
  observe::Op op_;
};

}  // namespace fusewire::tf
