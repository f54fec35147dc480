// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/wire_call.h"

#include <utility>

#include <absl/strings/str_cat.h>
#include "fusewire/tf/bridge/status.h"
#include "fusewire/tf/data/counters.h"

namespace fusewire {
namespace tf {

bool AppendProto(const google::protobuf::MessageLite& proto, std::string* head, Buffers* body) {
  size_t bytes = proto.ByteSizeLong();
  if (bytes > INT32_MAX) return false;
  if (bytes <= kHeadBytesMax) return proto.AppendToString(head);
  Buffer content = Buffer::TryAllocate(bytes);
  if (content.size() != bytes || !proto.SerializeToArray(content.bytes().data, static_cast<int>(bytes))) return false;
  body->push_back(std::move(content));
  return true;
}

bool ParseProto(ConstBytes rest_of_head, const Buffers& body, google::protobuf::MessageLite* proto) {
  ConstBytes from = body.empty() ? rest_of_head : ConstBytes(body[0].bytes());
  return from.size <= INT32_MAX && proto->ParseFromArray(from.data, static_cast<int>(from.size));
}

WireCall::WireCall(LinePtr line, MethodNumber number, const char* name, tensorflow::CallOptions* options,
                   google::protobuf::MessageLite* response, tensorflow::StatusCallback done)
    : Call(number),
      line_(std::move(line)),
      name_(name),
      options_(options),
      response_(response),
      done_(std::move(done)) {}

void WireCall::Start(const google::protobuf::MessageLite& request) {
  if (!AppendProto(request, &text_, &body)) {
    done_(absl::InvalidArgumentError(
        absl::StrCat("a request of ", request.ByteSizeLong(), " bytes is more than protobuf can carry (2 GiB)")));
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
  line_->client().Start(this);
}

TfStatus WireCall::Read() {
  VarReader reader{ConstBytes(reply_head)};
  TfStatus status;
  if (!ReadTfStatus(&reader, &status)) return absl::DataLossError("a peer's answer that makes no sense");
  if (status.ok() && response_ != nullptr && !ParseProto(reader.left(), reply_body, response_))
    return absl::DataLossError("a peer's answer that is not the protobuf it should be");
  return status;
}

void WireCall::OnDone(Status status) {
  if (options_ != nullptr) options_->ClearCancelCallback();
  line_->Note(status);
  TfStatus end = status.ok() ? Read() : ToTf(status);
  tensorflow::StatusCallback done = std::move(done_);
  end = WithTarget(end, line_->target(), name_);
  delete this;
  done(end);
}

}  // namespace tf
}  // namespace fusewire
