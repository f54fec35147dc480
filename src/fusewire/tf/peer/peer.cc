// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/peer/peer.h"

#include <utility>

#include <absl/strings/str_cat.h>
#include <tensorflow/core/platform/env.h>
#include "fusewire/base/check.h"
#include "fusewire/base/log.h"
#include "fusewire/tf/bridge/names.h"
#include "fusewire/tf/peer/marks.h"

namespace fusewire::tf {
namespace {

// A step number that no session draws: "fusewire" as a number.
constexpr int64_t kPortStep = 0x6675736577697265;

}  // namespace

void PortWords::Ask(tensorflow::LoggingRequest* request) { request->add_fetch_step_id(kPortStep); }

bool PortWords::IsAsked(const tensorflow::LoggingRequest& request) {
  return request.fetch_step_id_size() == 1 && request.fetch_step_id(0) == kPortStep;
}

void PortWords::Answer(tensorflow::LoggingResponse* response) const {
  tensorflow::LabeledStepStats* step = response->add_step();
  step->set_step_id(kPortStep);
  step->mutable_step_stats()->add_dev_stats()->set_device(EncodeDataPort(*this));
}

bool PortWords::Read(const tensorflow::LoggingResponse& response) {
  if (response.step_size() != 1 || response.step(0).step_id() != kPortStep) return false;
  const tensorflow::StepStats& stats = response.step(0).step_stats();
  if (stats.dev_stats_size() != 1) return false;
  return DecodeDataPort(std::string(stats.dev_stats(0).device()), this);
}

Peer::Peer(task::Task* task, Options options) : task_(task), options_(std::move(options)) {}

ChannelPtr Peer::channel() {
  MutexLock lock(mutex_);
  FUSEWIRE_DCHECK(state_ != State::kChannel || channel_ != nullptr);
  return state_ == State::kChannel && channel_->alive() ? channel_ : nullptr;
}

bool Peer::is_lost() {
  MutexLock lock(mutex_);
  return state_ == State::kChannel ? !channel_->alive() : has_lost_;
}

void Peer::AskAgain() {
  MutexLock lock(mutex_);
  if (state_ == State::kGrpc) state_ = State::kUnknown;
}

bool Peer::Fuses(const SidePtr& side) {
  bool fuses = false;
  {
    MutexLock lock(mutex_);
    // With a task, Route asks.
    if (!is_grpc_only()) return state_ == State::kGrpc && fuses_;
    if (state_ != State::kUnknown) return fuses_;
    fuses = fuses_;
  }
  Find(side, [](const TfStatus&, const ChannelPtr&) {});
  return fuses;
}

void Peer::CannotFuse() {
  MutexLock lock(mutex_);
  fuses_ = false;
}

transport::Address Peer::Place(const PortWords& words) const {
  Result<transport::Address> mapped = transport::Address::Parse(options_.data_address);
  if (mapped.ok()) return mapped.value();
  if (!words.advertised.empty()) return {words.advertised, words.port};
  Result<transport::Address> grpc = transport::Address::Parse(options_.address);
  return {grpc.ok() ? grpc.value().host : options_.address, words.port};
}

ChannelPtr Peer::MakeChannel(const transport::Address& address, uint64_t incarnation) {
  FUSEWIRE_DCHECK(task_ != nullptr);
  Channel::Options channel;
  channel.address = address;
  channel.incarnation = incarnation;
  channel.target = options_.target;
  channel.protocol = options_.protocol;
  channel.patience_ns = options_.patience_ns;
  channel.recovery_ns = options_.recovery_ns;
  channel.tickets = tickets_;
  return Channel::Make(*task_, std::move(channel));
}

void Peer::Route(const SidePtr& side, Routed routed) {
  if (is_grpc_only()) {
    routed(TfStatus(), nullptr);
  } else {
    Find(side, std::move(routed));
  }
}

void Peer::Find(const SidePtr& side, Routed routed) {
  ChannelPtr channel, lost;
  bool is_known = true;
  {
    MutexLock lock(mutex_);
    if (state_ == State::kChannel && !channel_->alive()) {
      lost = std::move(channel_);  // dropped outside the lock
      channel_ = nullptr;
      has_lost_ = true;
      state_ = State::kUnknown;
    }
    if (state_ == State::kUnknown || state_ == State::kAsking) {
      is_known = false;
      waiting_.push_back(std::move(routed));
      if (state_ == State::kAsking) return;
      state_ = State::kAsking;
    } else {
      channel = channel_;  // null for gRPC
    }
  }
  if (is_known) {
    routed(TfStatus(), std::move(channel));
    return;
  }
  FUSEWIRE_CHECK(side != nullptr);
  FUSEWIRE_CHECK(side->worker() != nullptr);
  struct Question {
    SidePtr side;
    tensorflow::LoggingRequest request;
    tensorflow::LoggingResponse response;
    observe::Event call;
  };
  auto question = std::make_shared<Question>();  // shared_ptr: std::function wants copies
  question->side = side;
  const uint32_t tag = observe::FindTag(observe::Kind::kCall, task_ == nullptr ? "" : ShortTask(task_->name()),
                                        ShortTask(options_.target), "where its data port is");
  question->call.Begin(observe::Kind::kCall, tag, 0, 0);
  PortWords::Ask(&question->request);
  side->worker()->LoggingAsync(&question->request, &question->response,
                               [peer = shared_from_this(), question](const TfStatus& status) {
                                 question->call.End(status.ok());
                                 peer->Answered(status, question->response);
                               });
}

void Peer::Answered(const TfStatus& status, const tensorflow::LoggingResponse& response) {
  PortWords words;
  // A server without this method has no plug-in; any other error is a failure to reach it.
  bool is_answer = status.ok() || absl::IsUnimplemented(status);
  bool has_plugin = status.ok() && words.Read(response);
  bool speaks = has_plugin && words.port != 0 && !is_grpc_only();
  bool is_refused = is_answer && !speaks && options_.must_encrypt;
  bool warns = false;
  std::vector<Routed> waiting;
  ChannelPtr channel;
  {
    MutexLock lock(mutex_);
    FUSEWIRE_DCHECK(state_ == State::kAsking);
    if (speaks) {
      channel_ = MakeChannel(Place(words), words.incarnation);
      state_ = State::kChannel;
      channel = channel_;
    } else {
      state_ = is_answer && !is_refused ? State::kGrpc : State::kUnknown;
    }
    if (state_ == State::kGrpc && !is_grpc_only()) warns = !std::exchange(has_warned_, true);
    if (is_answer) has_lost_ = false;
    if (is_answer) fuses_ = has_plugin && words.fuses;
    waiting.swap(waiting_);
  }
  TfStatus end = is_answer ? TfStatus() : status;
  if (is_refused) {
    end = absl::FailedPreconditionError(absl::StrCat(
        options_.target, " (", options_.address,
        ") has no data port, and FUSEWIRE_TLS_CERT is set here: nothing goes to it unencrypted; next: see that it says "
        "import fusewire, with a protocol of Fusewire and without FUSEWIRE_DISABLE"));
  } else if (speaks) {
    FUSEWIRE_LOG(kInfo, "%s (%s) has its data port at %s", options_.target.c_str(), options_.address.c_str(),
                 channel->address().ToString().c_str());
  } else if (warns) {
    FUSEWIRE_LOG(kWarn,
                 "%s (%s) %s: it is served over stock gRPC; next: %s there, and import fusewire before the server is "
                 "made; see: fusewire explain no-plug-in#a-task-without-fusewire",
                 ShortTask(options_.target).c_str(), options_.address.c_str(),
                 has_plugin ? "has loaded Fusewire, but its server speaks grpc" : "has no Fusewire",
                 has_plugin ? "set the same protocol" : "install it");
  }
  for (Routed& routed : waiting) routed(end, channel);
}

void Search::Begin(const std::function<void(Routed)>& ask) {
  FUSEWIRE_DCHECK(ask != nullptr);
  if (status().ok())
    ask([self = shared_from_this()](const TfStatus& status, ChannelPtr channel) {
      self->End(status, std::move(channel));
    });
  {
    MutexLock lock(mutex_);
    FUSEWIRE_DCHECK(!is_waiting_);  // Begin comes once
    is_waiting_ = true;
    if (why_.ok()) return;
  }
  End(TfStatus(), nullptr);
}

void Search::GiveUp(const TfStatus& why) {
  FUSEWIRE_DCHECK(!why.ok());
  {
    MutexLock lock(mutex_);
    if (!why_.ok()) return;
    why_ = why;
    if (!is_waiting_) return;  // Begin ends it
  }
  tensorflow::Env::Default()->SchedClosure([self = shared_from_this()] { self->End(TfStatus(), nullptr); });
}

TfStatus Search::status() {
  MutexLock lock(mutex_);
  return why_;
}

void Search::End(const TfStatus& status, ChannelPtr channel) {
  Routed found;
  TfStatus why;
  {
    MutexLock lock(mutex_);
    found.swap(found_);
    why = why_;
  }
  if (found == nullptr) return;
  if (why.ok()) {
    found(status, std::move(channel));
  } else {
    found(why, nullptr);
  }
}

}  // namespace fusewire::tf
