// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/peer/wire_call.h"

#include <absl/strings/str_cat.h>
#include "fusewire/base/check.h"
#include "fusewire/tf/bridge/status.h"
#include "fusewire/tf/peer/marks.h"

namespace fusewire::tf {

StepCalls::Flag StepCalls::FlagOf(int64_t step) {
  thread_local int64_t last = -1;
  thread_local Flag has_failed;
  if (has_failed == nullptr || last != step) has_failed = std::make_shared<std::atomic<bool>>(false);
  last = step;
  return has_failed;
}

WireCall::WireCall(ChannelPtr channel, MethodNumber number, const char* name, tensorflow::CallOptions* options,
                   google::protobuf::MessageLite* response, tensorflow::StatusCallback done)
    : Call(number),
      channel_(std::move(channel)),
      name_(name),
      options_(options),
      response_(response),
      done_(std::move(done)) {
  FUSEWIRE_DCHECK(channel_ != nullptr);
  FUSEWIRE_DCHECK(done_ != nullptr);
}

void WireCall::Start(const google::protobuf::MessageLite& request) {
  if (!AppendProto(request, &text_, &body)) {
    done_(absl::InvalidArgumentError(absl::StrCat("a request of ", request.ByteSizeLong(),
                                                  " bytes is more than protobuf can carry (2 GiB); see: ",
                                                  "fusewire explain tensors-over-2-gib#tensors-over-2-gib")));
    delete this;
    return;
  }
  head = text_;
  if (options_ != nullptr) {
    int64_t limit_ms = options_->GetTimeout();
    if (limit_ms > 0) timeout_ns = limit_ms * kMillisecondNs;
    options_->SetCancelCallback([this] { Cancel(); });
  }
  GlobalCounters().Add(&Counters::calls_out);
  channel_->BeginCall(method, name_, &event_);
  channel_->client().Start(this);
}

TfStatus WireCall::Read() {
  VarReader reader{ConstBytes(reply_head)};
  TfStatus status;
  TF_RETURN_IF_ERROR(ReadTfStatus(&reader, &status));
  if (status.ok() && response_ != nullptr && !ParseProto(reader.left(), reply_body, response_)) {
    return absl::DataLossError(absl::StrCat("a peer's answer of ", reader.left().size, " bytes in its head and ",
                                            reply_body.size(), " segments is no ", response_->GetTypeName()));
  }
  return status;
}

void WireCall::OnDone(Status status) {
  FUSEWIRE_AT_HOME(channel_->client().home());
  if (options_ != nullptr) options_->ClearCancelCallback();
  channel_->ReportStatus(status);
  event_.End(status.ok());
  TfStatus end = status.ok() ? Read() : ToTf(status);
  tensorflow::StatusCallback done = std::move(done_);
  end = WithTarget(end, channel_->target(), name_);
  delete this;
  done(end);
}

}  // namespace fusewire::tf
