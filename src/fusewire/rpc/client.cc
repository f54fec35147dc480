// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/rpc/client.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/base/log.h"
#include "fusewire/pipe/pipe_context.h"
#include "fusewire/reactor/completion.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/rpc/client_core.h"
#include "fusewire/task/task.h"
#include "fusewire/wire/wire.h"

namespace fusewire::rpc {
namespace {

// How long Close waits for OnDones before it logs that.
constexpr int64_t kCloseLogNs = 10 * kSecondNs;

// A call whose caller waits for it.
class AskedCall final : public Call {
 public:
  using Call::Call;
  reactor::Completion answered;

 private:
  void OnDone(Status status) override { answered.Done(std::move(status)); }
};

}  // namespace

Client::Client(task::Task& task, const transport::Address& address, ClientOptions options) {
  reactor::Reactor& home = task.pool().Next();
  home.Run([&] { core_ = std::make_unique<ClientCore>(task, home, address, options); });
}

Client::~Client() {
  Close();
  home().Run([this] { core_.reset(); });
}

reactor::Reactor& Client::home() { return core_->home(); }

void Client::Start(Call* call) {
  core_->Prepare(call);
  if (home().AtHome()) {
    core_->Begin(call);
    return;
  }
  home().HandIn(call);
}

void Client::StartAndWait(Call* call, reactor::Completion* answered) {
  if (reactor::Reactor::InsideAny()) {
    core_->Refuse(call, Status::Invalid("a callback of a reactor must not wait for an answer")
                            .Next("use Start and go on in OnDone, or wait on a thread of your own"));
    return;
  }
  core_->Prepare(call);
  answered->PostAndWait(home(), call);
}

Mail* Client::Prepare(Call* call) {
  core_->Prepare(call);
  return call;
}

Client::Answer Client::Ask(uint16_t method, ConstBytes head, Buffers body, int64_t timeout_ns) {
  AskedCall call(method);
  call.head = head;
  call.body = std::move(body);
  call.timeout_ns = timeout_ns;
  StartAndWait(&call, &call.answered);
  return Answer{call.answered.TakeStatus(), std::move(call.reply_head), std::move(call.reply_body)};
}

void Client::Connect() {
  ClientCore* core = core_.get();
  home().Post([core] { core->Connect(); });
}

void Client::GiveUp(Status why) {
  ClientCore* core = core_.get();
  home().Post([core, why = std::move(why)] { core->GiveUp(why); });
}

void Client::Close() {
  FUSEWIRE_CHECK(!home().AtHome());
  home().Run([this] { core_->Close(); });
  // Until the calls that it ends have had their OnDone, and those that were started again in it.
  while (true) {
    const Status drained = core_->under_way().Wait(home(), AddNs(home().clock()->NowNs(), kCloseLogNs));
    if (drained.ok()) return;
    FUSEWIRE_LOG(kWarn, "a client that closes is still waiting: %s", drained.Explained().c_str());
  }
}

PeerSnapshot Client::Snapshot() {
  PeerSnapshot snapshot;
  home().Run([&] { snapshot = core_->Snapshot(); });
  return snapshot;
}

// ---- what a Call asks of its client ----

Call::Call(uint16_t method_in)
    : method(method_in), deadline_([this] { client_.load(std::memory_order_relaxed)->OnDeadline(this); }) {}

void Call::Deliver() { client_.load(std::memory_order_relaxed)->Begin(this); }

void Call::Cancel() {
  cancel_wanted_.store(true, std::memory_order_seq_cst);
  ClientCore* client = client_.load(std::memory_order_seq_cst);
  if (client == nullptr) return;  // not started; Begin will see the cancel
  uint64_t id = id_.load(std::memory_order_seq_cst);
  if (id != 0) client->home().Post([client, id] { client->OnCancelWanted(id); });
  // Otherwise it has not arrived at home; Begin will see the cancel.
}

// ---- the part at home: the life of a call ----

ClientCore::ClientCore(task::Task& task, reactor::Reactor& home, const transport::Address& address,
                       ClientOptions options)
    : home_(home),
      options_(options),
      link_(task.context(), home, task.transport(), address, kRpcService, this),
      calls_(options.calls_in_flight_max),
      under_way_("calls to " + address.ToString()),
      patience_([this] { GiveUpWaiting(); }),
      peer_address_(address.ToString()),
      peer_(peer_address_) {}

ClientCore::~ClientCore() {
  FUSEWIRE_CHECK(calls_.in_use() == 0);
  FUSEWIRE_CHECK(under_way_.empty());
}

void ClientCore::Prepare(Call* call) {
  FUSEWIRE_CHECK(call->state_ == Call::State::kIdle);
  call->client_.store(this, std::memory_order_seq_cst);
}

void ClientCore::Begin(Call* call) {
  FUSEWIRE_AT_HOME(home_);
  under_way_.Open();
  call->state_ = Call::State::kWaiting;
  call->started_ns_ = home_.now_ns();
  call->landing_ = false;
  call->reply_head.clear();
  call->reply_body.clear();
  uint64_t id = calls_.Take(call);
  if (id == 0) {
    // Without a slot it has no id, so only this mail can reach it.
    home_.Post([this, call] {
      methods_.At(call->method).calls.Add();
      methods_.At(call->method).errors.Add();
      Retire(call);
      call->OnDone(Words(*call, Status::Overloaded("calls_in_flight_max (" +
                                                   std::to_string(options_.calls_in_flight_max) + ") is reached")
                                    .Next("wait for answers before you ask more")));
      under_way_.Close();
    });
    return;
  }
  call->id_.store(id, std::memory_order_seq_cst);
  if (!over_.ok()) {
    EndSoon(call, over_);
  } else if (call->cancel_wanted_.load(std::memory_order_seq_cst)) {
    EndSoon(call, Status::Cancelled("the caller cancelled it before it was sent"));
  } else if (call->timeout_ns <= 0) {
    EndSoon(call, Status::Timeout("its deadline had passed before it was started").Next("allow more time"));
  } else {
    const int64_t deadline_ns = call->deadline_ns();
    if (deadline_ns != kForeverNs) home_.ArmAt(&call->deadline_, deadline_ns);
    if (link_.pipe() != nullptr) {
      Send(call);
      return;
    }
    waiting_.PushBack(call);
    if (options_.patience_ns > 0 && !patience_.armed()) home_.Arm(&patience_, options_.patience_ns);
    link_.Want();
  }
}

void ClientCore::Send(Call* call) {
  pipe::Pipe* pipe = link_.pipe();
  if (!pipe->HasRoom(call->head.size)) {
    EndSoon(call, Status::Overloaded("the peer does not take calls as fast as they are made")
                      .Next("wait for answers before you ask more"));
    return;
  }
  pipe::Message message;
  message.kind = wire::FrameKind::kCall;
  message.method = call->method;
  message.call = call->id_.load(std::memory_order_relaxed);
  if (call->deadline_ns() != kForeverNs) {
    int64_t left_ms = (call->deadline_ns() - home_.now_ns() + kMillisecondNs - 1) / kMillisecondNs;
    message.aux = static_cast<uint32_t>(std::clamp<int64_t>(left_ms, 1, UINT32_MAX));
  }
  message.head = call->head;
  message.body = std::move(call->body);
  call->body.clear();
  Status fits = pipe->CheckSize(message.head.size, message.body);
  if (!fits.ok()) {
    EndSoon(call, fits);
    return;
  }
  uint64_t bytes = call->head.size + TotalBytes(message.body) + message.body.size() * sizeof(uint64_t);
  message.express = bytes <= kExpressBytes - wire::kHeaderBytes;
  methods_.At(call->method).request_bytes.Add(bytes);
  call->state_ = Call::State::kSent;
  pipe->Send(std::move(message));
}

// Adds peer, phase and age, unless they are set.
Status ClientCore::Words(const Call& call, Status status) const {
  if (status.ok()) return status;
  return status.Peer(peer_)
      .Phase("calling method " + std::to_string(call.method))
      .AgeMs((home_.now_ns() - call.started_ns_) / kMillisecondNs);
}

void ClientCore::End(Call* call, Status status) {
  uint64_t id = call->id_.load(std::memory_order_relaxed);
  if (call->landing_) {
    // After this, the network must not touch the caller's memory.
    link_.Abandon(wire::FrameKind::kReply, id);
    link_.Abandon(wire::FrameKind::kReplyPart, id);
  }
  call->landing_ = false;
  call->part_body_.clear();
  call->parts_.clear();
  if (!status.ok()) call->reply_body.clear();  // a partial body is discarded
  reactor::Reactor::Disarm(&call->deadline_);
  call->Unlink();
  calls_.Release(id);
  MethodStats& stats = methods_.At(call->method);
  stats.calls.Add();
  if (!status.ok()) stats.errors.Add();
  if (status.code() == Code::kTimeout) stats.timeouts.Add();
  if (status.code() == Code::kCancelled) stats.cancels.Add();
  stats.latency_ns.Add(static_cast<uint64_t>(std::max<int64_t>(0, home_.now_ns() - call->started_ns_)));
  call->body.clear();
  Retire(call);
  call->OnDone(Words(*call, std::move(status)));
  under_way_.Close();
}

// From now on it may be started again, by any client.
void ClientCore::Retire(Call* call) {
  call->state_ = Call::State::kIdle;
  call->id_.store(0, std::memory_order_seq_cst);
  call->client_.store(nullptr, std::memory_order_seq_cst);
  call->cancel_wanted_.store(false, std::memory_order_seq_cst);
}

void ClientCore::Refuse(Call* call, const Status& why) {
  FUSEWIRE_CHECK(call->state_ == Call::State::kIdle);
  call->OnDone(why.Peer(peer_address_).Phase("calling method " + std::to_string(call->method)));
}

// Not inside Start: its caller may hold a lock that OnDone takes.
void ClientCore::EndSoon(Call* call, Status status) {
  uint64_t id = call->id_.load(std::memory_order_relaxed);
  home_.Post([this, id, status = std::move(status)] {
    Call* found = calls_.Find(id);
    if (found != nullptr) End(found, status);
  });
}

void ClientCore::OnDeadline(Call* call) {
  uint64_t id = call->id_.load(std::memory_order_relaxed);
  Status why = Status::Timeout(call->state_ == Call::State::kSent ? "no answer in time" : "no connection in time");
  if (call->state_ == Call::State::kWaiting && !last_failure_.ok())
    why = Status::Timeout("no connection in time, last error: " + last_failure_.cause());
  if (call->state_ == Call::State::kSent && link_.pipe() != nullptr) link_.pipe()->Cancel(id);
  End(call, why.Next("look at the peer, or allow more time"));
}

void ClientCore::OnCancelWanted(uint64_t id) {
  Call* call = calls_.Find(id);
  if (call == nullptr) return;  // the reply arrived first
  if (call->state_ == Call::State::kSent && link_.pipe() != nullptr) link_.pipe()->Cancel(id);
  End(call, Status::Cancelled("the caller cancelled it"));
}

// ---- the link ----

void ClientCore::OnUp(const pipe::PeerInfo& peer, bool restarted) {
  peer_ = peer.ToString();
  last_failure_ = Status::Ok();
  if (options_.incarnation != 0 && options_.incarnation != peer.incarnation) {
    link_.Close(Status::Refused("a process other than the intended one answers at this address")
                    .Next("the peer has restarted: ask for its new address"));
    return;
  }
  if (restarted) FUSEWIRE_LOG(kInfo, "peer %s came back as another incarnation", peer_.c_str());
  if (options_.on_up) options_.on_up(peer.wire);
  SendWaiting();
}

void ClientCore::SendWaiting() {
  while (link_.pipe() != nullptr && !waiting_.empty()) Send(waiting_.PopFront());
}

void ClientCore::OnDown(Status why, bool was_up) {
  last_failure_ = why;
  if (over_.ok() && options_.on_down) options_.on_down(why, was_up);
  // An OnDone may start new calls, which wait for the next connection; end only the calls that were sent.
  std::vector<uint64_t> ended;
  // Waiting for the peer does not help if it refuses us, or if this process has no descriptor left.
  bool is_ours = !was_up && why.code() == Code::kOverloaded;
  bool hopeless = why.code() == Code::kRefused || is_ours || (!was_up && options_.patience_ns <= 0);
  for (uint64_t id : calls_.Names()) {
    if (calls_.Find(id)->state_ == Call::State::kSent || hopeless) ended.push_back(id);
  }
  for (uint64_t id : ended) {
    Call* call = calls_.Find(id);
    if (call != nullptr) End(call, why);
  }
  if (!waiting_.empty()) link_.Want();
}

void ClientCore::GiveUpWaiting() {
  int64_t now_ns = home_.now_ns();
  while (Call* call = waiting_.front()) {
    int64_t patience_ends_ns = AddNs(call->started_ns_, options_.patience_ns);
    if (patience_ends_ns > now_ns) {
      home_.ArmAt(&patience_, patience_ends_ns);
      return;
    }
    if (last_failure_.code() == Code::kRefused) {
      End(call, last_failure_);  // the peer is up, and would refuse again
      continue;
    }
    std::string cause = "no connection within " + std::to_string(options_.patience_ns / kMillisecondNs) + " ms";
    if (!last_failure_.ok()) cause += ", last error: " + last_failure_.cause();
    End(call, Status::Unavailable(cause)
                  .Next(last_failure_.next())
                  .Next("check that the peer is running, and that its address and port are right"));
  }
}

void ClientCore::GiveUp(const Status& why) {
  FUSEWIRE_AT_HOME(home_);
  if (!over_.ok()) return;
  over_ = why;
  while (Call* call = waiting_.front()) End(call, why);
}

void ClientCore::Close() {
  FUSEWIRE_AT_HOME(home_);
  over_ = Status::Cancelled("the client is closed");
  for (uint64_t id : calls_.Names()) {
    Call* call = calls_.Find(id);
    if (call == nullptr) continue;
    if (call->state_ == Call::State::kSent && link_.pipe() != nullptr) link_.pipe()->Cancel(id);
    EndSoon(call, Status::Cancelled("the client was closed"));
  }
  link_.Close(Status::Cancelled("the client was closed"));
}

// ---- answers ----

Result<pipe::Landing> ClientCore::OnHeader(const wire::FrameHeader& header, ConstBytes meta) {
  bool is_answer = header.kind == wire::FrameKind::kReply || header.kind == wire::FrameKind::kReplyPart;
  if (!is_answer) return Status::Corrupt(std::string("a client was sent a ") + wire::KindName(header.kind));
  Call* call = calls_.Find(header.call);
  if (call == nullptr && calls_.HasPassed(header.call)) return pipe::Landing::Discard();
  if (call == nullptr || call->state_ != Call::State::kSent) {
    return Status::Corrupt("an answer to a call that was never made");
  }
  // Its landing memory is freed when the call ends.
  if (call->landing_) return Status::Corrupt("an answer begins inside another of the same call");
  if (header.aux > kCodeMax) return Status::Corrupt("an answer with the unknown code " + std::to_string(header.aux));
  if (header.segments == 0) return pipe::Landing::View();
  if (header.aux != 0) return Status::Corrupt("an error with a body");
  SegmentSizes sizes(header, meta);
  bool is_part = header.kind == wire::FrameKind::kReplyPart;
  Result<pipe::Landing> landing =
      is_part ? call->LandPart(wire::HeadOf(header, meta), sizes) : call->Land(wire::HeadOf(header, meta), sizes);
  if (landing.ok()) {
    Status fits = CheckLanding(landing.value(), header.body_bytes);
    if (!fits.ok()) landing = fits;
  }
  if (!landing.ok()) {
    // The caller could not land it: only this call fails; the pipe and other calls continue.
    const Status& why = landing.status();
    if (link_.pipe() != nullptr) link_.pipe()->Cancel(header.call);
    End(call, why);
    return pipe::Landing::Discard();
  }
  call->landing_ = landing.value().mode == pipe::Landing::Mode::kInto;
  return landing;
}

Status ClientCore::OnMessage(const wire::FrameHeader& header, ConstBytes meta, ConstBytes) {
  link_.pipe()->Consume(header);
  Call* call = calls_.Find(header.call);
  if (call == nullptr) {
    ++late_replies_;
    return Status::Ok();
  }
  call->landing_ = false;
  return OnReply(call, header, wire::HeadOf(header, meta));
}

Status ClientCore::OnReply(Call* call, const wire::FrameHeader& header, ConstBytes head) {
  methods_.At(call->method).reply_bytes.Add(header.meta_bytes + header.body_bytes);
  if (header.kind == wire::FrameKind::kReplyPart) {
    call->OnPart(head, std::move(call->part_body_));
    return Status::Ok();
  }
  Status status;
  if (header.aux != 0) {
    FUSEWIRE_TRY(wire::DecodeStatus(static_cast<Code>(header.aux), head, &status));
  } else {
    call->reply_head.assign(reinterpret_cast<const char*>(head.data), head.size);
  }
  End(call, std::move(status));
  return Status::Ok();
}

PeerSnapshot ClientCore::Snapshot() {
  PeerSnapshot peer;
  peer.peer = peer_;
  peer.up = link_.pipe() != nullptr;
  peer.connects = link_.connects();
  peer.calls_in_flight = calls_.in_use();
  peer.late_replies = late_replies_;
  if (link_.pipe() != nullptr) {
    peer.wire = link_.pipe()->peer().wire;
    ReadInto(link_.pipe()->stats(), &peer);
  }
  for (const auto& [method, stats] : methods_.all()) peer.methods.push_back(Read(method, "", *stats));
  return peer;
}

}  // namespace fusewire::rpc
