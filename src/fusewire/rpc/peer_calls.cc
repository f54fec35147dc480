// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/rpc/peer_calls.h"

#include <algorithm>
#include <map>
#include <utility>

#include "fusewire/base/check.h"

namespace fusewire::rpc {
namespace {

// Smaller answers are bounded by the limit of calls in flight.
constexpr uint64_t kCountedBytesMin = 4096;

std::atomic<uint64_t> held_bytes{0};

// The last own segment of an answer, which stands for all of them.
struct Held {
  Held(Buffer last_in, uint64_t bytes_in) : last(std::move(last_in)), bytes(bytes_in) {}
  ~Held() {
    const uint64_t before = held_bytes.fetch_sub(bytes, std::memory_order_relaxed);
    FUSEWIRE_CHECK(bytes <= before);
  }
  Buffer last;
  const uint64_t bytes;
};

void Release(void* owner, Bytes) { std::unique_ptr<Held>(static_cast<Held*>(owner)).reset(); }

constexpr size_t kFreeCallsMax = 256;

}  // namespace

uint64_t HeldAnswerBytes() { return held_bytes.load(std::memory_order_relaxed); }

Status HoldAnswer(Buffers* body, uint64_t bytes_max) {
  uint64_t bytes = 0;
  Buffer* last = nullptr;
  for (Buffer& segment : *body) {
    if (!segment.is_own()) continue;
    bytes += segment.size();
    last = &segment;
  }
  if (bytes < kCountedBytesMin) return Status::Ok();
  const uint64_t before = held_bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (before > 0 && bytes > bytes_max - std::min(before, bytes_max)) {
    held_bytes.fetch_sub(bytes, std::memory_order_relaxed);
    return Status::Overloaded("callers have not taken answers of " + std::to_string(before) + " bytes")
        .Next("ask for less at a time, or raise answers_bytes_max of the server");
  }
  const Bytes place = last->bytes();
  *last = Buffer::Wrap(place, std::make_unique<Held>(std::move(*last), bytes).release(), Release);
  return Status::Ok();
}

ServerCall::ServerCall(PeerCalls* peer_in, reactor::Reactor& home_in)
    : peer(peer_in), home(home_in), deadline([this] { PeerCalls::MarkUnwanted(this, Unwanted::kGivenUp); }) {}

void ServerCall::Deliver() {
  if (peer != nullptr) {
    Buffer head_bytes = std::move(head);
    peer->Answer(this, status, head_bytes.bytes(), std::move(body));
  } else {
    delete this;
  }
}

MethodIndex::MethodIndex(std::vector<Method> methods) : methods_(std::move(methods)) {
  for (Method& method : methods_) {
    if (by_number_.size() <= method.number) by_number_.resize(method.number + size_t{1});
    FUSEWIRE_CHECK(by_number_[method.number] == nullptr);
    by_number_[method.number] = &method;
  }
}

Status MethodIndex::Check(const std::vector<Method>& methods) {
  std::map<uint16_t, const Method*> seen;
  for (const Method& method : methods) {
    auto [place, is_new] = seen.emplace(method.number, &method);
    if (is_new) continue;
    return Status::Invalid("methods \"" + place->second->name + "\" and \"" + method.name + "\" both have number " +
                           std::to_string(method.number))
        .Phase("open a server")
        .Next("give each method a number of its own");
  }
  return Status::Ok();
}

std::string MethodIndex::NameOf(uint16_t number) {
  Method* method = Find(number);
  return method == nullptr ? std::string() : method->name;
}

PeerCalls::PeerCalls(pipe::Pipe& pipe, MethodIndex& methods, ServerHome& home, const std::atomic<bool>& closing)
    : pipe_(pipe), methods_(methods), home_(home), closing_(closing) {
  home_.peers.PushBack(this);
}

PeerCalls::~PeerCalls() { LeaveAll(); }

pipe::FrameHandler* PeerCalls::OnOpen(const pipe::PeerInfo&) { return this; }

void PeerCalls::OnClosed(Status) { LeaveAll(); }

// Calls whose Reply is held elsewhere outlive the PeerCalls; the others end here.
void PeerCalls::LeaveAll() {
  while (ServerCall* call = calls_.PopFront()) {
    home_.under_way.Close();
    reactor::Reactor::Disarm(&call->deadline);
    call->peer = nullptr;
    if (call->landing) {
      delete call;
    } else {
      MarkUnwanted(call, Unwanted::kLost);
    }
  }
  in_flight_ = 0;
  slots_.clear();
  landing_.clear();
}

// ---- a call comes in ----

// A generation is used once: an honest caller never sends a repeated or older one.
Status PeerCalls::TakeSlot(const wire::FrameHeader& header) {
  wire::CallId id = wire::UnpackCallId(header.call);
  if (id.slot >= home_.calls_in_flight_max) {
    return Status::Corrupt("call slot " + std::to_string(id.slot) + " is over calls_in_flight_max " +
                           std::to_string(home_.calls_in_flight_max));
  }
  if (id.slot >= slots_.size()) slots_.resize(id.slot + size_t{1});
  // Generations could wrap in three steps, and a landing call is found by its id.
  const bool lands = std::any_of(landing_.begin(), landing_.end(),
                                 [&header](const ServerCall* call) { return call->header.call == header.call; });
  Slot& slot = slots_[id.slot];
  if (lands || (slot.used && static_cast<int32_t>(id.generation - slot.generation) <= 0)) {
    return Status::Corrupt("a call came twice: slot " + std::to_string(id.slot) + ", generation " +
                           std::to_string(id.generation));
  }
  // The caller has abandoned an older call in this slot, even if its cancel has not arrived.
  if (ServerCall* abandoned = std::exchange(slot.call, nullptr)) MarkUnwanted(abandoned, Unwanted::kGivenUp);
  slot.generation = id.generation;
  slot.used = true;
  return Status::Ok();
}

ServerCall* PeerCalls::NewCall() {
  std::unique_ptr<ServerCall> call;
  if (free_.empty()) {
    call = std::make_unique<ServerCall>(this, *home_.reactor);
  } else {
    call = std::move(free_.back());
    free_.pop_back();
  }
  calls_.PushBack(call.get());
  ++in_flight_;
  home_.under_way.Open();
  return call.release();  // in calls_ until it has a Reply, then the Reply's
}

ServerCall* PeerCalls::TakeLanded(uint64_t id) {
  auto found =
      std::find_if(landing_.begin(), landing_.end(), [id](const ServerCall* call) { return call->header.call == id; });
  FUSEWIRE_CHECK(found != landing_.end());
  ServerCall* call = *found;
  landing_.erase(found);
  call->landing = false;
  return call;
}

Result<pipe::Landing> PeerCalls::OnHeader(const wire::FrameHeader& header, ConstBytes meta) {
  if (header.kind != wire::FrameKind::kCall)
    return Status::Corrupt(std::string("a server was sent a ") + wire::KindName(header.kind));
  FUSEWIRE_TRY(TakeSlot(header));
  ServerCall* call = NewCall();
  CurrentAt(header.call) = call;
  call->header = header;
  call->landing = true;
  landing_.push_back(call);
  call->started_ns = home_.reactor->now_ns();
  pipe::Landing landing = header.body_bytes == 0 ? pipe::Landing::View() : pipe::Landing::Discard();
  Method* method = methods_.Find(header.method);
  if (method == nullptr) {
    call->refusal = Status::Invalid("there is no method " + std::to_string(header.method))
                        .Next("run the same version in both tasks");
  } else if (closing_.load(std::memory_order_relaxed)) {
    call->refusal = Status::Unavailable("the server is shutting down").Next("try again, or another server");
  } else if (in_flight_ > home_.calls_in_flight_max) {
    // An honest caller has no more slots than that, but handlers may still have abandoned calls.
    call->refusal = Status::Overloaded("more than " + std::to_string(home_.calls_in_flight_max) +
                                       " calls of this caller are unanswered, also of those that it gave up")
                        .Next("wait for answers before you ask more");
  } else if (header.segments > 0) {
    call->refusal = LandRequest(call, method, meta, &landing);
  }
  return landing;
}

Status PeerCalls::LandRequest(ServerCall* call, Method* method, ConstBytes meta, pipe::Landing* landing) {
  SegmentSizes sizes(call->header, meta);
  if (!method->make_sink) {
    FUSEWIRE_TRY(AllocateSegments(sizes, &call->request.body, &call->parts));
    *landing = pipe::Landing::Into(call->parts.data(), call->parts.size());
    return Status::Ok();
  }
  Result<std::unique_ptr<RequestSink>> sink = method->make_sink(wire::HeadOf(call->header, meta), sizes);
  if (!sink.ok()) return sink.status();
  pipe::Landing place = sink.value()->Where();
  FUSEWIRE_TRY(CheckLanding(place, call->header.body_bytes));
  *landing = place;
  call->request.sink = std::move(sink).value();
  return Status::Ok();
}

// Unknown methods must not use memory.
MethodStats& PeerCalls::StatsOf(uint16_t method) {
  return methods_.Find(method) == nullptr ? home_.unknown : home_.methods.At(method);
}

Status PeerCalls::OnMessage(const wire::FrameHeader& header, ConstBytes meta, ConstBytes) {
  ServerCall* call = TakeLanded(header.call);
  MethodStats& stats = StatsOf(header.method);
  stats.request_bytes.Add(header.meta_bytes + header.body_bytes);
  if (!call->refusal.ok() || call->unwanted.load(std::memory_order_relaxed)) {
    Status refusal = call->refusal;
    Answer(call, refusal.ok() ? Status::Cancelled("the caller cancelled it") : refusal, ConstBytes(), Buffers());
    return Status::Ok();
  }
  Request request = std::move(call->request);
  request.method = header.method;
  request.head = wire::HeadOf(header, meta);
  request.peer = &pipe_.peer();
  if (header.aux != 0) {
    request.deadline_ns = AddNs(call->started_ns, static_cast<int64_t>(header.aux) * kMillisecondNs);
    home_.reactor->ArmAt(&call->deadline, request.deadline_ns);
  }
  methods_.Find(header.method)->handle(std::move(request), Reply(call));
  return Status::Ok();
}

void PeerCalls::OnCancel(uint64_t call_id) {
  wire::CallId id = wire::UnpackCallId(call_id);
  if (id.slot >= slots_.size()) return;
  ServerCall* call = slots_[id.slot].call;
  if (call == nullptr || call->header.call != call_id) return;  // has its reply already
  if (call->landing) pipe_.Abandon(wire::FrameKind::kCall, call_id);
  MarkUnwanted(call, Unwanted::kGivenUp);
}

void PeerCalls::MarkUnwanted(ServerCall* call, Unwanted why) {
  if (call->unwanted.exchange(true, std::memory_order_acq_rel)) return;
  reactor::Reactor::Disarm(&call->deadline);
  if (auto told = std::exchange(call->told, nullptr)) told(why);
}

// ---- an answer goes out ----

void PeerCalls::Answer(ServerCall* call, const Status& status, ConstBytes head, Buffers body) {
  FUSEWIRE_AT_HOME(*home_.reactor);
  bool wanted = !call->unwanted.load(std::memory_order_relaxed) && CurrentAt(call->header.call) == call;
  MethodStats& stats = StatsOf(call->header.method);
  Status outcome = wanted ? SendAnswer(call, status, head, std::move(body), &stats) : status;
  stats.calls.Add();
  if (!outcome.ok()) stats.errors.Add();
  if (!wanted) stats.cancels.Add();
  stats.latency_ns.Add(static_cast<uint64_t>(std::max<int64_t>(0, home_.reactor->now_ns() - call->started_ns)));
  if (!call->streamed) pipe_.Consume(call->header);
  Free(call);
}

// Sends the reason instead, if the reply itself can't be sent. Returns the status that it sent.
Status PeerCalls::SendAnswer(ServerCall* call, Status status, ConstBytes head, Buffers body, MethodStats* stats) {
  if (status.ok()) status = call->refusal;  // a stream with a gap must not end with success
  if (status.ok()) status = WhyNot(head, &body);
  std::string words;
  if (!status.ok()) {
    wire::AppendStatus(status, &words);
    head = words;
    body.clear();
  }
  if (!pipe_.HasRoom(head.size)) {
    // Not even an error fits: without a reply, the caller would wait forever.
    pipe_.Close(status);
    return status;
  }
  pipe::Message message;
  message.kind = wire::FrameKind::kReply;
  message.method = call->header.method;
  message.call = call->header.call;
  message.aux = static_cast<uint32_t>(status.code());
  message.head = head;
  message.body = std::move(body);
  uint64_t bytes = message.head.size + TotalBytes(message.body) + message.body.size() * sizeof(uint64_t);
  message.express = !call->streamed && bytes <= kExpressBytes - wire::kHeaderBytes;
  stats->reply_bytes.Add(bytes);
  pipe_.Send(std::move(message));
  return status;
}

// Why a reply, or a part of one, can't be sent; or ok, and its memory is counted.
Status PeerCalls::WhyNot(ConstBytes head, Buffers* body) const {
  Status fits = pipe_.CheckSize(head.size, *body);
  if (!fits.ok()) {
    return Status::Internal("the handler's answer cannot be sent: " + fits.cause())
        .Next("report this to the author of the handler");
  }
  if (pipe_.HasRoom(head.size + home_.words_bytes_max)) {
    const bool waits = !body->empty() && !pipe_.GoesAtOnce(wire::kHeaderBytes + head.size + TotalBytes(*body));
    return waits ? HoldAnswer(body, home_.answers_bytes_max) : Status::Ok();
  }
  return Status::Overloaded("the caller does not take answers as fast as they come")
      .Next("ask for less at a time; a handler that streams waits for the done of each part");
}

void PeerCalls::SendPart(ServerCall* call, ConstBytes head, Buffers body, Done done) {
  Status why;
  if (call->unwanted.load(std::memory_order_relaxed)) {
    why = Status::Cancelled("the caller no longer wants the answer");
  } else {
    if (call->refusal.ok()) call->refusal = WhyNot(head, &body);
    why = call->refusal;
  }
  if (!why.ok()) {
    body.clear();
    if (done) home_.reactor->Post([done = std::move(done), why]() mutable { done(why); });
    return;
  }
  // A call returns its credit before its reply waits for credit: otherwise two tasks that stream to each other could
  // wait forever.
  if (!std::exchange(call->streamed, true)) pipe_.Consume(call->header);
  pipe::Message message;
  message.kind = wire::FrameKind::kReplyPart;
  message.method = call->header.method;
  message.call = call->header.call;
  message.head = head;
  message.body = std::move(body);
  home_.methods.At(call->header.method).reply_bytes.Add(head.size + TotalBytes(message.body));
  if (!done) {
    pipe_.Send(std::move(message));
    return;
  }
  // By mail: a thread that submits a call or a reply sends what is ready, and must not be called back.
  pipe_.Send(std::move(message), [reactor = home_.reactor, done = std::move(done)](Status sent) mutable {
    reactor->Post([done = std::move(done), sent = std::move(sent)]() mutable { done(std::move(sent)); });
  });
}

void PeerCalls::Free(ServerCall* call) {
  std::unique_ptr<ServerCall> owned(call);
  if (CurrentAt(call->header.call) == call) CurrentAt(call->header.call) = nullptr;
  call->Unlink();
  --in_flight_;
  home_.under_way.Close();
  reactor::Reactor::Disarm(&call->deadline);
  if (free_.size() >= kFreeCallsMax) return;
  call->streamed = call->landing = false;
  call->refusal = Status::Ok();
  call->request = Request();
  call->parts.clear();
  call->unwanted.store(false, std::memory_order_relaxed);
  call->told = {};
  call->status = Status::Ok();
  free_.push_back(std::move(owned));
}

PeerSnapshot PeerCalls::Snapshot() const {
  PeerSnapshot peer;
  peer.peer = pipe_.peer().ToString();
  peer.up = pipe_.open();
  peer.wire = pipe_.peer().wire;
  peer.connects = 1;
  peer.calls_in_flight = in_flight_;
  ReadInto(pipe_.stats(), &peer);
  return peer;
}

// ---- a Reply, on any thread: at home it replies at once; elsewhere it posts the call home, with the reply in it ----

Reply& Reply::operator=(Reply&& other) noexcept {
  if (this != &other) {
    Reply dropped(std::move(*this));
    call_ = std::exchange(other.call_, nullptr);
  }
  return *this;
}

Reply::~Reply() {
  if (call_ != nullptr)
    Send(Status::Internal("the handler dropped the call").Next("report this to the author of the handler"));
}

void Reply::Send(Status status, ConstBytes head, Buffers body) {
  FUSEWIRE_CHECK(call_ != nullptr);  // a Reply is sent once
  ServerCall* call = std::exchange(call_, nullptr);
  if (call->home.AtHome()) {
    if (call->peer != nullptr) {
      call->peer->Answer(call, status, head, std::move(body));
    } else {
      delete call;
    }
    return;
  }
  call->status = std::move(status);
  call->head = Buffer::CopyOf(head);
  if (call->head.size() != head.size) call->status = Status::Overloaded("no memory for the answer's head");
  call->body = std::move(body);
  call->home.HandIn(call);
}

void Reply::SendPart(ConstBytes head, Buffers body, Done done) {
  FUSEWIRE_CHECK(call_ != nullptr);
  auto send = [call = call_](ConstBytes part_head, Buffers part_body, Done part_done) {
    if (call->peer != nullptr) {
      call->peer->SendPart(call, part_head, std::move(part_body), std::move(part_done));
    } else if (part_done) {
      part_body.clear();
      call->home.Post(
          [part_done = std::move(part_done)]() mutable { part_done(Status::Unavailable("the caller is gone")); });
    }
  };
  if (call_->home.AtHome()) {
    send(head, std::move(body), std::move(done));
    return;
  }
  call_->home.Post(
      [send, part_head = Buffer::CopyOf(head), part_body = std::move(body), part_done = std::move(done)]() mutable {
        send(part_head.bytes(), std::move(part_body), std::move(part_done));
      });
}

reactor::Reactor& Reply::home() const {
  FUSEWIRE_CHECK(call_ != nullptr);
  return call_->home;
}

bool Reply::unwanted() const { return call_ == nullptr || call_->unwanted.load(std::memory_order_acquire); }

void Reply::OnUnwanted(UniqueFunction<void(Unwanted)> told) {
  FUSEWIRE_CHECK(call_ != nullptr);
  FUSEWIRE_AT_HOME(call_->home);
  call_->told = std::move(told);
}

}  // namespace fusewire::rpc
