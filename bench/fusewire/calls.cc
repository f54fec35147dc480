// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "bench/fusewire/calls.h"

#include <algorithm>
#include <utility>

#include "bench/fusewire/server.h"

namespace fusewire::bench {
namespace {

constexpr int64_t kCallTimeoutNs = 20 * kSecondNs;

}  // namespace

void AskedCall::RunOn(rpc::Client* client) {
  answered_.Reset();
  timeout_ns = kCallTimeoutNs;
  client->StartAndWait(this, &answered_);
  if (!answered_.status().ok()) Die(answered_.status().ToString());
}

void AskedCall::OnDone(Status status) { answered_.Done(std::move(status)); }

EchoCall::EchoCall(size_t bytes) : AskedCall(kEcho), message_(bytes, 'x') { head = message_; }

void EchoCall::RunOn(rpc::Client* client) {
  AskedCall::RunOn(client);
  if (reply_head.size() != message_.size()) Die("an echo of another size");
}

EchoChain::EchoChain(size_t bytes) : Call(kEcho), message_(bytes, 'x') { head = message_; }

void EchoChain::RunOn(rpc::Client* client, const Again& again) {
  client_ = client;
  again_ = &again;
  timeout_ns = kCallTimeoutNs;
  ended_.Reset();
  client->Start(this);
  if (!ended_.Wait(client->home())) Die("wait for the last echo");
}

void EchoChain::OnDone(Status status) {
  if (!status.ok()) Die(status.ToString());
  if (reply_head.size() != message_.size()) Die("an echo of another size");
  if ((*again_)()) {
    client_->Start(this);
  } else {
    ended_.Done();
  }
}

SegmentsCall::SegmentsCall(const Options& options) : AskedCall(kSegments200) {
  for (const size_t size : SegmentSizes(options)) {
    landings_.push_back(Buffer::TryAllocate(size));
    parts_.push_back(landings_.back().bytes());
    step_bytes_ += size;
  }
}

Result<pipe::Landing> SegmentsCall::Land(ConstBytes, const rpc::SegmentSizes& sizes) {
  if (sizes.count() != parts_.size()) return Status::Invalid("another number of segments");
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (sizes.at(i) != parts_[i].size) return Status::Invalid("a segment of another size");
  }
  return pipe::Landing::Into(parts_.data(), parts_.size());
}

class Flow::OneCall final : public rpc::Call {
 public:
  OneCall(Flow* flow, uint16_t method_in) : Call(method_in), flow_(flow) { timeout_ns = kCallTimeoutNs; }

 private:
  void OnDone(Status status) override {
    if (!status.ok()) Die(status.ToString());
    if (reply_head.size() != head.size) Die("an answer of another size");
    const bool last = --flow_->to_answer_ == 0;
    flow_->StartNext(this);
    if (last) flow_->ended_.Done();  // From here on the flow may run again.
  }

  Flow* const flow_;
};

Flow::Flow(rpc::Client* client, uint16_t method, size_t depth, size_t head_bytes, size_t body_bytes)
    : client_(client), head_(head_bytes, 'x'), body_(Buffer::TryAllocate(body_bytes)) {
  for (size_t i = 0; i < depth; ++i) calls_.push_back(std::make_unique<OneCall>(this, method));
}

Flow::~Flow() = default;

void Flow::Run(uint64_t count) {
  ended_.Reset();
  client_->home().Run([this, count] {
    to_start_ = to_answer_ = count;
    for (const std::unique_ptr<OneCall>& call : calls_) StartNext(call.get());
  });
  if (!ended_.Wait(client_->home())) Die("wait for the last answer");
}

void Flow::StartNext(OneCall* call) {
  if (to_start_ == 0) return;
  --to_start_;
  call->head = head_;
  if (!body_.empty()) call->body.push_back(Buffer::Wrap(body_.bytes(), nullptr, nullptr));
  client_->Start(call);
}

}  // namespace fusewire::bench
