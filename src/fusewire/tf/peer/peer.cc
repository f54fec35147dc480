// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/peer/peer.h"

#include <algorithm>
#include <utility>

#include <absl/strings/str_cat.h>
#include <tensorflow/core/distributed_runtime/call_options.h>
#include <tensorflow/core/platform/env.h>
#include <tensorflow/core/platform/logging.h>
#include "fusewire/base/check.h"
#include "fusewire/base/log.h"
#include "fusewire/tf/bridge/names.h"
#include "fusewire/tf/peer/marks.h"

namespace fusewire::tf {
namespace {

// A step number that no session draws: "fusewire" as a number.
constexpr int64_t kPortStep = 0x6675736577697265;
// Between two calls to a task that accepts connections and dies again.
constexpr int64_t kReturnPauseUs = 100 * 1000;

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

ChannelPtr Peer::MakeChannel(const PortWords& words) {
  FUSEWIRE_DCHECK(task_ != nullptr);
  Channel::Options channel;
  channel.address = Place(words);
  channel.incarnation = words.incarnation;
  channel.state = words.state;
  channel.target = options_.target;
  channel.protocol = options_.protocol;
  channel.patience_ns = options_.patience_ns;
  channel.recovery_ns = options_.recovery_ns;
  channel.tickets = tickets_;
  if (words.state != 0) {
    channel.on_lost = [weak = weak_from_this()] {
      if (auto peer = weak.lock()) peer->LookFor();
    };
  }
  return Channel::Make(*task_, std::move(channel));
}

void Peer::Route(const SidePtr& side, Routed routed) {
  if (is_grpc_only()) {
    routed(TfStatus(), nullptr);
  } else {
    Find(side, std::move(routed));
  }
}

void Peer::KeepSession(const tensorflow::CreateWorkerSessionRequest& request, const SidePtr& side) {
  if (is_grpc_only() || options_.recovery_ns == 0) return;
  {
    MutexLock lock(mutex_);
    const bool never_returns = incarnation_ != 0 && state_id_ == 0;
    if (never_returns) return;
    sides_[request.session_handle()] = side;
  }
  retelling_->KeepSession(request);
}

void Peer::DropSession(const std::string& session) {
  SidePtr side;  // dropped outside the lock
  {
    MutexLock lock(mutex_);
    auto found = sides_.find(session);
    if (found != sides_.end()) {
      side = std::move(found->second);
      sides_.erase(found);
    }
  }
  retelling_->DropSession(session);
}

void Peer::ForgetSessions() {
  std::map<std::string, SidePtr> sides;  // dropped outside the lock
  {
    MutexLock lock(mutex_);
    sides.swap(sides_);
  }
  retelling_->Clear();
}

// Off the reactor: it may send over gRPC.
void Peer::LookFor() {
  SidePtr side;
  {
    MutexLock lock(mutex_);
    if (sides_.empty()) return;
    side = sides_.begin()->second;
  }
  tensorflow::Env::Default()->SchedClosure(
      [peer = shared_from_this(), side] { peer->Find(side, [](const TfStatus&, const ChannelPtr&) {}); });
}

bool Peer::may_return() {
  MutexLock lock(mutex_);
  return state_id_ != 0 && options_.recovery_ns > 0;
}

void Peer::Find(const SidePtr& side, Routed routed) {
  ChannelPtr channel, lost;
  bool is_known = true;
  int64_t limit_ns = 0;
  {
    MutexLock lock(mutex_);
    if (state_ == State::kChannel && !channel_->alive()) {
      lost = std::move(channel_);  // dropped outside the lock
      channel_ = nullptr;
      has_lost_ = true;
      state_ = State::kUnknown;
      if (state_id_ != 0 && lost->recovers()) limit_ns = lost->RecoversUntilNs() - lost->NowNs();
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
  if (limit_ns > 0) {
    AwaitReturn(side, AddNs(Clock::Real()->NowNs(), limit_ns));
  } else {
    Ask(side);
  }
}

void Peer::BeginCall(const char* what, observe::Event* call) const {
  const uint32_t tag = observe::FindTag(observe::Kind::kCall, task_ == nullptr ? "" : ShortTask(task_->name()),
                                        ShortTask(options_.target), what);
  call->Begin(observe::Kind::kCall, tag, 0, 0);
}

void Peer::AwaitReturn(const SidePtr& side, int64_t deadline_ns) {
  struct Waiting {
    tensorflow::CallOptions options;
    tensorflow::GetStatusRequest request;
    tensorflow::GetStatusResponse response;
    observe::Event call;
  };
  auto waiting = std::make_shared<Waiting>();  // shared_ptr: std::function wants copies
  BeginCall("its return", &waiting->call);
  const int64_t left_ns = deadline_ns - Clock::Real()->NowNs();
  waiting->options.SetTimeout(std::max<int64_t>(left_ns / kMillisecondNs, 1));
  side->worker()->GetStatusAsync(&waiting->options, &waiting->request, &waiting->response, /*fail_fast=*/false,
                                 [peer = shared_from_this(), side, waiting, deadline_ns](const TfStatus& status) {
                                   waiting->call.End(status.ok());
                                   const bool is_early = Clock::Real()->NowNs() + kReturnPauseUs * 1000 < deadline_ns;
                                   if (!absl::IsUnavailable(status) || !is_early) return peer->Ask(side);
                                   tensorflow::Env::Default()->SchedClosureAfter(
                                       kReturnPauseUs,
                                       [peer, side, deadline_ns] { peer->AwaitReturn(side, deadline_ns); });
                                 });
}

void Peer::Ask(const SidePtr& side) {
  struct Question {
    tensorflow::LoggingRequest request;
    tensorflow::LoggingResponse response;
    observe::Event call;
  };
  auto question = std::make_shared<Question>();  // shared_ptr: std::function wants copies
  BeginCall("where its data port is", &question->call);
  PortWords::Ask(&question->request);
  side->worker()->LoggingAsync(&question->request, &question->response,
                               [peer = shared_from_this(), side, question](const TfStatus& status) {
                                 question->call.End(status.ok());
                                 peer->Answered(side, status, question->response);
                               });
}

void Peer::Answered(const SidePtr& side, const TfStatus& status, const tensorflow::LoggingResponse& response) {
  PortWords words;
  const bool has_plugin = status.ok() && words.Read(response);
  bool is_return = false;
  {
    MutexLock lock(mutex_);
    FUSEWIRE_DCHECK(state_ == State::kAsking);
    is_return = has_plugin && words.port != 0 && state_id_ != 0 && words.state == state_id_ &&
                words.incarnation != incarnation_;
  }
  if (!is_return) return Settle(status, has_plugin, words);
  retelling_->Say(side->worker(), [peer = shared_from_this(), side, words](const TfStatus& told) {
    if (told.ok()) LOG(INFO) << "fusewire: " << ShortTask(peer->options_.target) << " is back with what it had";
    peer->Settle(told, true, words);
  });
}

void Peer::Settle(const TfStatus& status, bool has_plugin, const PortWords& words) {
  // A server without this method has no plug-in; any other error is a failure to reach it.
  bool is_answer = status.ok() || absl::IsUnimplemented(status);
  bool speaks = status.ok() && has_plugin && words.port != 0 && !is_grpc_only();
  bool is_refused = is_answer && !speaks && options_.must_encrypt;
  bool warns = false;
  std::vector<Routed> waiting;
  ChannelPtr channel;
  {
    MutexLock lock(mutex_);
    FUSEWIRE_DCHECK(state_ == State::kAsking);
    if (speaks) {
      channel_ = MakeChannel(words);
      state_ = State::kChannel;
      channel = channel_;
      state_id_ = words.state;
      incarnation_ = words.incarnation;
    } else {
      state_ = is_answer && !is_refused ? State::kGrpc : State::kUnknown;
    }
    if (state_ == State::kGrpc && !is_grpc_only()) warns = !std::exchange(has_warned_, true);
    if (is_answer) has_lost_ = false;
    if (is_answer) fuses_ = has_plugin && words.fuses;
    waiting.swap(waiting_);
  }
  if (speaks && words.state == 0) ForgetSessions();
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
