// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/peer/peer.h"

#include <algorithm>
#include <utility>

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <tensorflow/core/distributed_runtime/call_options.h>
#include <tensorflow/core/platform/env.h>
#include <tensorflow/core/platform/logging.h>
#include "fusewire/base/check.h"
#include "fusewire/base/log.h"
#include "fusewire/tf/bridge/names.h"
#include "fusewire/tf/peer/marks.h"
#include "fusewire/tf/peer/wire_call.h"

namespace fusewire::tf {
namespace {

// A step number that no session draws: "fusewire" as a number.
constexpr int64_t kPortStep = 0x6675736577697265;
// Between two calls to a task that accepts a connection and then dies again.
constexpr int64_t kReturnPauseUs = 100 * 1000, kFirstPauseUs = 5 * 1000;
constexpr int64_t kMovedOnPauseUs = 10 * 1000;

Retelling::Way OverGrpc(const SidePtr& side) {
  return {[side](const auto* request, auto* response, Retelling::Done done) {
            side->worker()->CreateWorkerSessionAsync(request, response, std::move(done));
          },
          [side](const auto* request, auto* response, Retelling::Done done) {
            side->worker()->RegisterGraphAsync(request, response, std::move(done));
          }};
}

Retelling::Way OverWire(const ChannelPtr& channel) {
  return {
      [channel](const auto* request, auto* response, Retelling::Done done) {
        (new WireCall(channel, kCreateWorkerSession, "CreateWorkerSession", nullptr, response, std::move(done)))
            ->Start(*request);
      },
      [channel](const auto* request, auto* response, Retelling::Done done) {
        (new WireCall(channel, kRegisterGraph, "RegisterGraph", nullptr, response, std::move(done)))->Start(*request);
      }};
}

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

bool PortWords::PointTo(const Whereabout& place) {
  Result<transport::Address> address = transport::Address::Parse(place.address);
  if (!address.ok()) return false;
  port = address.value().port;
  advertised = address.value().host;
  incarnation = place.incarnation;
  state = place.state;
  epoch = place.epoch;
  fuses = true;
  return true;
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
  channel.epoch = words.epoch;
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
    const bool never_returns = last_.incarnation != 0 && last_.state == 0;
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

// Searches off the reactor, as that may send over gRPC. Without a session the next call does the search; calls under
// way must not dial the old address again.
void Peer::LookFor() {
  SidePtr side;
  ChannelPtr lost;
  {
    MutexLock lock(mutex_);
    if (!sides_.empty()) {
      side = sides_.begin()->second;
    } else if (state_ == State::kChannel && !channel_->alive()) {
      lost = channel_;
    }
  }
  PortWords elsewhere;
  if (lost != nullptr && IsFoundElsewhere(&elsewhere)) lost->Supersede();
  if (side == nullptr) return;
  tensorflow::Env::Default()->SchedClosure(
      [peer = shared_from_this(), side] { peer->Find(side, [](const TfStatus&, const ChannelPtr&) {}); });
}

bool Peer::may_return() {
  MutexLock lock(mutex_);
  return last_.state != 0 && options_.recovery_ns > 0;
}

uint64_t Peer::epoch() {
  MutexLock lock(mutex_);
  return last_.epoch;
}

void Peer::Find(const SidePtr& side, Routed routed) {
  ChannelPtr channel, lost;
  bool is_known = true;
  int64_t limit_ns = 0;
  {
    MutexLock lock(mutex_);
    if (state_ == State::kChannel && !channel_->alive()) {
      lost = std::move(channel_);  // dropped outside the lock
      lost_ = lost;
      channel_ = nullptr;
      has_lost_ = true;
      state_ = State::kUnknown;
      if (last_.state != 0 && lost->recovers())
        limit_ns = lost->losses().recovers_until_ns.load(std::memory_order_relaxed) - lost->NowNs();
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
  PortWords elsewhere;
  if (IsFoundElsewhere(&elsewhere)) {
    Answered(side, TfStatus(), /*has_plugin=*/true, elsewhere, AddNs(Clock::Real()->NowNs(), limit_ns));
  } else if (limit_ns > 0) {
    AwaitReturn(side, AddNs(Clock::Real()->NowNs(), limit_ns));
  } else {
    Ask(side, nullptr);
  }
}

void Peer::BeginCall(const char* what, observe::Event* call) const {
  const uint32_t tag = observe::FindTag(observe::Kind::kCall, task_ == nullptr ? "" : ShortTask(task_->name()),
                                        ShortTask(options_.target), what);
  call->Begin(observe::Kind::kCall, tag, 0, 0);
}

struct Peer::Return {
  SidePtr side;
  int64_t deadline_ns = 0;
  int attempts = 0;
  ScoutPtr scout;  // null: nobody else is asked
  // shared_ptr: the scout ends the call, too.
  std::shared_ptr<tensorflow::CallOptions> options = std::make_shared<tensorflow::CallOptions>();
  tensorflow::GetStatusRequest request;
  tensorflow::GetStatusResponse response;
  observe::Event call;

  bool is_early() const { return Clock::Real()->NowNs() + kReturnPauseUs * 1000 < deadline_ns; }
  bool is_over() const { return scout != nullptr && scout->is_over(); }
  // False: another task has reported where it is.
  bool Stop() const { return scout == nullptr || scout->Stop(); }
};

void Peer::AwaitReturn(const SidePtr& side, int64_t deadline_ns) {
  auto awaited = std::make_shared<Return>();
  awaited->side = side;
  awaited->deadline_ns = deadline_ns;
  if (options_.other != nullptr) {
    auto found = [peer = shared_from_this(), side, deadline_ns, options = awaited->options] {
      options->StartCancel();
      PortWords words;
      if (!peer->IsFoundElsewhere(&words)) return peer->Ask(side, nullptr);
      peer->Answered(side, TfStatus(), /*has_plugin=*/true, words, deadline_ns);
    };
    awaited->scout = Seek(kReturnPauseUs, options_.other, std::move(found));
    AwaitAtPlace(awaited);
  }
  AwaitOverGrpc(awaited);
}

void Peer::AwaitOverGrpc(const ReturnPtr& awaited) {
  if (awaited->is_over()) return;
  BeginCall("its return", &awaited->call);
  const int64_t left_ns = awaited->deadline_ns - Clock::Real()->NowNs();
  awaited->options->SetTimeout(std::max<int64_t>(left_ns / kMillisecondNs, 1));
  awaited->side->worker()->GetStatusAsync(awaited->options.get(), &awaited->request, &awaited->response,
                                          /*fail_fast=*/false,
                                          [peer = shared_from_this(), awaited](const TfStatus& status) {
                                            awaited->call.End(status.ok());
                                            if (awaited->is_over()) return;
                                            if (absl::IsDeadlineExceeded(status)) awaited->deadline_ns = 0;
                                            // Or it lives, and knows who has its task.
                                            const bool is_elsewhere = absl::StrContains(status.message(), kLostItsTask);
                                            if (absl::IsUnavailable(status) && !is_elsewhere && awaited->is_early())
                                              return peer->AwaitSoon(awaited);
                                            peer->Ask(awaited->side, awaited);
                                          });
}

void Peer::AwaitAtPlace(const ReturnPtr& awaited) {
  Whereabout place;
  PortWords words;
  if (awaited->is_over() || !options_.known->Find(ShortTask(options_.target), &place) || !words.PointTo(place)) return;
  // shared_ptr: the answer may come after the wait for it.
  auto told = std::make_shared<Whereabouts>();
  auto asked = [peer = shared_from_this(), awaited, place, words, told] {
    Whereabout said;
    const bool has_it = told->Find(place.task, &said) && said.incarnation == place.incarnation;
    if (has_it && !awaited->is_over() && awaited->Stop()) {
      awaited->options->StartCancel();
      peer->Answered(awaited->side, TfStatus(), /*has_plugin=*/true, words, awaited->deadline_ns);
    } else if (awaited->is_early()) {
      tensorflow::Env::Default()->SchedClosureAfter(kReturnPauseUs, [peer, awaited] { peer->AwaitAtPlace(awaited); });
    }
  };
  // Off the reactor: it may send over gRPC.
  Exchange(MakeChannel(words), told, [asked] { tensorflow::Env::Default()->SchedClosure(asked); });
}

void Peer::AwaitSoon(const ReturnPtr& awaited) {
  const int64_t pause_us = std::min(kReturnPauseUs, kFirstPauseUs << std::min(awaited->attempts++, 16));
  tensorflow::Env::Default()->SchedClosureAfter(pause_us,
                                                [peer = shared_from_this(), awaited] { peer->AwaitOverGrpc(awaited); });
}

ScoutPtr Peer::Seek(int64_t every_us, std::function<ChannelPtr(uint64_t turn)> other, std::function<void()> found) {
  Scout::Options scout;
  scout.task = ShortTask(options_.target);
  scout.every_us = every_us;
  scout.known = options_.known;
  scout.other = std::move(other);
  scout.found = std::move(found);
  {
    MutexLock lock(mutex_);
    scout.after_epoch = last_.epoch;
  }
  auto begun = std::make_shared<Scout>(std::move(scout));
  begun->Begin();
  return begun;
}

bool Peer::IsFoundElsewhere(PortWords* words) {
  Whereabout found;
  if (options_.known == nullptr || !options_.known->Find(ShortTask(options_.target), &found)) return false;
  {
    MutexLock lock(mutex_);
    if (found.epoch <= last_.epoch) return false;
  }
  return words->PointTo(found);
}

void Peer::Ask(const SidePtr& side, const ReturnPtr& awaited) {
  struct Question {
    tensorflow::LoggingRequest request;
    tensorflow::LoggingResponse response;
    observe::Event call;
  };
  auto question = std::make_shared<Question>();  // shared_ptr: std::function wants copies
  BeginCall("where its data port is", &question->call);
  PortWords::Ask(&question->request);
  side->worker()->LoggingAsync(&question->request, &question->response,
                               [peer = shared_from_this(), side, awaited, question](const TfStatus& status) {
                                 question->call.End(status.ok());
                                 if (awaited != nullptr) {
                                   // It is dead again, or another process is about to take its task over.
                                   if (absl::IsUnavailable(status) && awaited->is_early())
                                     return peer->AwaitSoon(awaited);
                                   if (!awaited->Stop()) return;
                                 }
                                 PortWords words;
                                 TfStatus said = status;
                                 const bool has_plugin = status.ok() && words.Read(question->response);
                                 if (has_plugin) said = peer->Compare(&words);
                                 peer->Answered(side, said, has_plugin && said.ok(), words,
                                                awaited == nullptr ? 0 : awaited->deadline_ns);
                               });
}

TfStatus Peer::Compare(PortWords* words) {
  if (options_.known == nullptr || words->epoch == 0) return TfStatus();
  const std::string task = ShortTask(options_.target);
  options_.known->Learn({task, Place(*words).ToString(), words->incarnation, words->state, words->epoch});
  PortWords elsewhere;
  Whereabout found;
  if (!options_.known->Find(task, &found) || found.epoch <= words->epoch) return TfStatus();
  if (IsFoundElsewhere(&elsewhere)) {
    *words = elsewhere;
    return TfStatus();
  }
  return absl::UnavailableError(absl::StrCat(
      options_.target, " (", options_.address, ") has been taken over by ", found.address,
      ", which does not answer, and what it has itself is older; next: see why that one is gone (fusewire why)"));
}

void Peer::Answered(const SidePtr& side, const TfStatus& status, bool has_plugin, PortWords words,
                    int64_t deadline_ns) {
  bool is_return = false;
  {
    MutexLock lock(mutex_);
    FUSEWIRE_DCHECK(state_ == State::kAsking);
    is_return = has_plugin && words.port != 0 && last_.state != 0 && words.state == last_.state &&
                words.incarnation != last_.incarnation;
  }
  if (!is_return) return Settle(status, has_plugin, words, nullptr);
  ChannelPtr lost;
  {
    MutexLock lock(mutex_);
    lost = lost_.lock();
  }
  if (lost != nullptr) lost->Supersede();
  ChannelPtr channel = MakeChannel(words);
  retelling_->Say(words.epoch != 0 ? OverWire(channel) : OverGrpc(side),
                  [peer = shared_from_this(), side, words, channel, deadline_ns](const TfStatus& told) {
                    if (told.ok()) {
                      LOG(INFO) << "fusewire: " << ShortTask(peer->options_.target) << " is back with what it had";
                    } else {
                      MutexLock lock(peer->mutex_);  // it is not looked for there again
                      peer->last_.epoch = std::max(peer->last_.epoch, words.epoch);
                    }
                    const bool has_moved_on = absl::IsUnavailable(told) && words.epoch != 0;
                    if (has_moved_on && Clock::Real()->NowNs() < deadline_ns) {
                      auto again = [peer, side, deadline_ns] { peer->AwaitReturn(side, deadline_ns); };
                      return tensorflow::Env::Default()->SchedClosureAfter(kMovedOnPauseUs, again);
                    }
                    peer->Settle(told, true, words, channel);
                  });
}

void Peer::Settle(const TfStatus& status, bool has_plugin, const PortWords& words, ChannelPtr channel) {
  // A server without this method has no plug-in; any other error is a failure to reach it.
  bool is_answer = status.ok() || absl::IsUnimplemented(status);
  bool speaks = status.ok() && has_plugin && words.port != 0 && !is_grpc_only();
  bool is_refused = is_answer && !speaks && options_.must_encrypt;
  bool warns = false;
  std::vector<Routed> waiting;
  if (!speaks) {
    channel = nullptr;
  } else if (channel == nullptr) {
    channel = MakeChannel(words);
  }
  {
    MutexLock lock(mutex_);
    FUSEWIRE_DCHECK(state_ == State::kAsking);
    if (speaks) {
      channel_ = channel;
      state_ = State::kChannel;
      last_ = words;
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
