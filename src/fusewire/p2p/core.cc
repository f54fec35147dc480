// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The life of an operation: begun, sent or made to wait, ended once.
#include "fusewire/p2p/core.h"

#include <algorithm>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/log.h"
#include "fusewire/base/random.h"
#include "fusewire/wire/meta.h"

namespace fusewire {
namespace p2p {
namespace {

// How often we look whether a pipe still sends what an ended operation waits for, and what counts as sending.
constexpr int64_t kReleaseLookNs = 1 * kSecondNs;
constexpr uint64_t kReleaseProgressBytes = 4096;
// Up to this a payload travels in the head: one copy, no parts.
constexpr uint64_t kInlineBytes = 2048;

// An eager message is express, so it fits in any chunk that we might agree on, and in a kept copy.
uint64_t EagerBytesMax(const Limits& limits, const pipe::Options& options) {
  uint64_t chunk = options.limits.chunk_bytes_max;
  uint64_t around = wire::kHeaderBytes + wire::kP2pHeadBytesMax + 1024;
  return std::min<uint64_t>({limits.eager_bytes_max, kCopyBytesMax - 1, chunk > around ? chunk - around : 0});
}

const char* const kKindNames[] = {"send", "receive", "put", "get", "await a signal", "await a peer"};

}  // namespace

void Scatter(ConstBytes from, const std::vector<Bytes>& parts) {
  for (const Bytes& part : parts) {
    size_t size = std::min(part.size, from.size);
    if (size == 0) continue;
    CopyBytes(part, from.Sub(0, size));
    from = from.From(size);
  }
}

Core::Core(pipe::Shared& shared, reactor::Reactor& home, transport::Transport& transport, Limits limits, OnPeer on_peer)
    : shared_(shared),
      home_(home),
      transport_(transport),
      limits_(limits),
      eager_bytes_max_(EagerBytesMax(limits, shared.options())),
      on_peer_(std::move(on_peer)),
      ops_(limits.ops_max),
      // Names of memory are hard to guess, and those of an earlier incarnation mean nothing.
      regions_(limits.regions_max, static_cast<uint32_t>(Random(shared.options().incarnation).Next())),
      signals_(limits.regions_max, static_cast<uint32_t>(Random(~shared.options().incarnation).Next())) {}

Core::~Core() { FUSEWIRE_CHECK(ops_.in_use() == 0); }

Result<PeerLink*> Core::PeerNamed(const std::string& name) {
  FUSEWIRE_AT_HOME(home_);
  auto found = peers_.find(name);
  if (found != peers_.end()) return found->second.get();
  if (name.empty() || name == this->name()) {
    return Status::Refused(name.empty() ? "a peer without a name" : "a peer with our own name, \"" + name + "\"")
        .Phase("greeting")
        .Next("give every endpoint a name of its own");
  }
  if (peers_.size() >= limits_.peers_max)
    return Status::Overloaded("peers_max (" + std::to_string(limits_.peers_max) + ") is reached").Phase("greeting");
  return (peers_[name] = std::make_unique<PeerLink>(*this, name)).get();
}

void Core::HandleOffers(uint64_t tag_min, uint64_t tag_max, OnOffer on_offer) {
  FUSEWIRE_AT_HOME(home_);
  offer_ranges_.push_back(std::make_unique<OfferRange>(OfferRange{tag_min, tag_max, std::move(on_offer)}));
}

// ---- the life of an operation ----

void Core::Begin(Op* op) {
  FUSEWIRE_AT_HOME(home_);
  bool outer = std::exchange(beginning_, true);
  BeginWith(op);
  beginning_ = outer;
}

// It has a name and a deadline from now on. False: it has ended.
bool Core::Enter(Op* op) {
  op->state_ = Op::State::kWaiting;
  op->status_ = Status::Ok();
  op->posted_ns_ = home_.now_ns();
  op->with_ = op->peer_;
  op->taken_ = false;
  op->remote_id_ = 0;
  op->order_ = 0;
  op->offered_ = false;
  int64_t timeout_ns = op->timeout_ns == 0 ? limits_.timeout_ns : std::max<int64_t>(op->timeout_ns, 0);
  op->deadline_ns_ = AddNs(op->posted_ns_, timeout_ns);
  uint64_t name = ops_.Take(op);
  op->id_.store(name, std::memory_order_seq_cst);
  if (name == 0) {
    End(op, Status::Overloaded("ops_max (" + std::to_string(limits_.ops_max) + ") is reached")
                .Next("wait for operations before you post more"));
  } else if (closed_) {
    End(op, Status::Cancelled("the endpoint is closed"));
  } else if (op->cancel_wanted_.load(std::memory_order_seq_cst)) {
    End(op, Status::Cancelled("it was cancelled before it began"));
  } else if (op->timeout_ns < 0) {
    End(op, Status::Timeout("its deadline had passed before it was posted").Next("allow more time"));
  } else {
    if (op->deadline_ns_ != kForeverNs) home_.ArmAt(&op->deadline_, op->deadline_ns_);
    return true;
  }
  return false;
}

void Core::BeginWith(Op* op) {
  if (!Enter(op)) return;
  if (op->kind_ == Op::Kind::kReceive) {
    static_cast<ReceiveOp*>(op)->room_ = TotalOf(static_cast<ReceiveOp*>(op)->parts);
    BeginReceive(static_cast<ReceiveOp*>(op));
  } else if (op->kind_ == Op::Kind::kAwait) {
    BeginAwait(static_cast<AwaitOp*>(op));
  } else if ((!op->peer_->waiting.empty() && op->kind_ != Op::Kind::kAwaitPeer) || !Dispatch(op)) {
    Wait(op);
  }
}

void Core::Wait(Op* op) {
  op->peer_->waiting.PushBack(op);
  if (op->peer_->pipe() != nullptr) return;
  home_.ArmAt(&op->deadline_, std::min(op->deadline_ns_, AddNs(op->posted_ns_, limits_.patience_ns)));
  op->peer_->Want();
}

// False: not now. It may have ended when this returns.
bool Core::Dispatch(Op* op) {
  if (op->peer_->pipe() == nullptr) return false;
  switch (op->kind_) {
    case Op::Kind::kSend: return DispatchSend(static_cast<SendOp*>(op));
    case Op::Kind::kPut: return DispatchPut(static_cast<PutOp*>(op));
    case Op::Kind::kGet: return DispatchGet(static_cast<GetOp*>(op));
    default: End(op, Status::Ok()); return true;
  }
}

void Core::PumpWaiting(PeerLink* peer) {
  while (Op* op = peer->waiting.front()) {
    uint64_t name = op->id_.load(std::memory_order_relaxed);
    int64_t deadline_ns = op->deadline_ns_;
    if (!Dispatch(op)) return;
    if (ops_.Find(name) != op) continue;  // it has ended
    op->Unlink();
    if (deadline_ns != kForeverNs) home_.ArmAt(&op->deadline_, deadline_ns);
  }
}

// The pipe may hold its memory: then the end waits until it does not.
void Core::EndOnceReleased(Op* op, Status status) {
  if (op->state_ == Op::State::kEnding) return;
  if (op->in_pipe_ == 0) {
    End(op, std::move(status));
    return;
  }
  op->state_ = Op::State::kEnding;
  op->status_ = std::move(status);
  op->lane_bytes_ = 0;
  if (pipe::Pipe* pipe = op->lane_->pipe()) op->lane_bytes_ = pipe->stats().bytes_out.Read();
  home_.Arm(&op->deadline_, kReleaseLookNs);
}

void Core::End(Op* op, Status status) {
  FUSEWIRE_DCHECK(op->in_pipe_ == 0);
  uint64_t name = op->id_.load(std::memory_order_relaxed);
  if (op->state_ == Op::State::kLanding && op->lane_ != nullptr) op->lane_->AbandonOp(name);
  if (op->arriving_ != nullptr) std::exchange(op->arriving_, nullptr)->op = nullptr;
  op->lane_ = nullptr;
  reactor::Reactor::Disarm(&op->deadline_);
  op->Unlink();
  if (name != 0) ops_.Release(name);
  op->id_.store(0, std::memory_order_seq_cst);
  op->status_ = Words(*op, status);
  PeerLink* freed = std::exchange(op->offered_, false) ? op->with_ : nullptr;
  if (freed != nullptr) --freed->offers_out;
  op->state_ = Op::State::kEndMailed;
  if (beginning_ && op->then) {
    ++ends_mailed_;
    home_.Post(static_cast<Mail*>(op));
  } else {
    Finish(op);
  }
  if (freed != nullptr && !freed->waiting.empty() && !closed_) {
    home_.Post([this, freed] { PumpWaiting(freed); });
  }
}

void Core::FinishMailed(Op* op) {
  --ends_mailed_;
  Finish(op);
}

// Nothing of ours touches it after this.
void Core::Finish(Op* op) {
  op->state_ = Op::State::kIdle;
  if (op->then) {
    op->word_.store(Op::kEnded, std::memory_order_release);
    op->then();
    return;
  }
  uintptr_t waiter = op->word_.exchange(Op::kEnded, std::memory_order_acq_rel);
  if (waiter != Op::kPending) reinterpret_cast<reactor::Waiter*>(waiter)->Signal();
}

// Says who, what and since when, where that has not been said.
Status Core::Words(const Op& op, const Status& status) const {
  if (status.ok()) return status;
  std::string phase = kKindNames[static_cast<int>(op.kind_)];
  if (op.kind_ == Op::Kind::kSend) phase += " with tag " + std::to_string(static_cast<const SendOp&>(op).tag);
  if (op.kind_ == Op::Kind::kReceive) phase += " with tag " + std::to_string(static_cast<const ReceiveOp&>(op).tag);
  Status said = status.Phase(phase).AgeMs((home_.now_ns() - op.posted_ns_) / kMillisecondNs);
  return op.with_ == nullptr ? said : said.Peer(op.with_->Words());
}

void Core::OnDeadline(Op* op) {
  using State = Op::State;
  if (op->state_ == State::kEnding) {
    // The peer still takes bytes: this message's turn will come. If it does not, its pipe is of no use to anybody.
    pipe::Pipe* pipe = op->lane_->pipe();
    uint64_t bytes = pipe == nullptr ? 0 : pipe->stats().bytes_out.Read();
    if (pipe != nullptr && bytes - op->lane_bytes_ < kReleaseProgressBytes) {
      pipe->Close(Status::Unavailable("the peer does not take the rest of a message that was given up")
                      .Next("look at the peer: it may be stopped or overloaded"));
    }
    op->lane_bytes_ = bytes;
    home_.Arm(&op->deadline_, kReleaseLookNs);
    return;
  }
  bool waits = op->state_ == State::kWaiting && op->peer_ != nullptr;
  if (waits && op->peer_->pipe() != nullptr && home_.now_ns() < op->deadline_ns_) {
    if (op->deadline_ns_ != kForeverNs) home_.ArmAt(&op->deadline_, op->deadline_ns_);
    return;
  }
  std::string last = waits && !op->peer_->last_failure().ok() ? ", last error: " + op->peer_->last_failure().cause() : "";
  if (waits && home_.now_ns() < op->deadline_ns_) {
    End(op, Status::Unavailable("no connection within " + std::to_string(limits_.patience_ns / kMillisecondNs) + " ms" +
                                last)
                .Next(op->peer_->CanDial() ? "check that the peer is running, and that its address and port are right"
                                           : "it has to dial us: give Connect its address, or start it"));
    return;
  }
  const char* what = waits && op->peer_->pipe() == nullptr ? "no connection in time"
                     : op->kind_ == Op::Kind::kReceive     ? "no message in time"
                     : op->kind_ == Op::Kind::kAwait       ? "no signal in time"
                                                           : "no answer in time";
  GiveUp(op, Status::Timeout(what + last).Next("look at the peer, or allow more time"));
}

// We end it, not the peer: the peer is told what it needs to know.
void Core::GiveUp(Op* op, const Status& why) {
  using State = Op::State;
  PeerLink* peer = op->with_;
  bool up = peer != nullptr && peer->pipe() != nullptr;
  if (up && op->kind_ == Op::Kind::kSend && op->state_ == State::kOffered) {
    Say(peer->lane(), wire::P2pVerb::kWithdraw, op->id_.load(std::memory_order_relaxed) | wire::kP2pMine, 0,
        {static_cast<SendOp*>(op)->tag});
  }
  bool matched = op->state_ == State::kPulling || op->state_ == State::kLanding;
  if (up && op->kind_ == Op::Kind::kReceive && matched && op->remote_id_ != 0) {
    SayTaken(peer, op->remote_id_, Status(why.code(), "the receiver gave up: " + why.cause()).Next(why.next()));
  }
  EndOnceReleased(op, why);
}

void Core::OnCancelWanted(uint64_t name) {
  Op* op = ops_.Find(name);
  if (op != nullptr) GiveUp(op, Status::Cancelled("the caller cancelled it"));
}

void Core::EndAllOf(PeerLink* peer, const Status& why, bool waiting_too) {
  for (uint64_t name : ops_.Names()) {
    Op* op = ops_.Find(name);
    if (op == nullptr || op->with_ != peer) continue;
    if (op->state_ == Op::State::kWaiting && !waiting_too) continue;
    EndOnceReleased(op, why);
  }
}

void Core::Close() {
  FUSEWIRE_AT_HOME(home_);
  closed_ = true;
  for (uint64_t name : ops_.Names()) {
    Op* op = ops_.Find(name);
    if (op != nullptr) GiveUp(op, Status::Cancelled("the endpoint was closed"));
  }
  for (auto& [name, peer] : peers_) {
    peer->Close(Status::Unavailable("the endpoint was closed").Next("nothing, if the task has ended as it should"));
  }
}

// ---- peers ----

bool Core::HasOpsOf(const PeerLink* peer) {
  if (closed_) return false;
  for (uint64_t name : ops_.Names()) {
    const Op* op = ops_.Find(name);
    if (op->peer_ == peer) return true;
  }
  return false;
}

void Core::Tell(PeerLink* peer, PeerEvent event, const Status& why) {
  if (on_peer_) on_peer_(*peer, event, why);
}

void Core::OnPeerUp(PeerLink* peer, bool restarted) {
  if (restarted) {
    FUSEWIRE_LOG(kInfo, "peer %s came back as another incarnation", peer->Words().c_str());
    // What was meant for the old one must not reach the new one, nor the other way round.
    EndAllOf(peer, Status::Unavailable("the peer has restarted since it was posted").Next("post it again"), true);
    for (Kept* kept : matcher_.AllOf(peer)) Forget(kept);
  }
  Tell(peer, restarted ? PeerEvent::kRestarted : PeerEvent::kUp, Status::Ok());
  // In the order of posting: that is the order in which it may use them.
  std::vector<ReceiveOp*> posted;
  for (uint64_t name : ops_.Names()) {
    Op* op = ops_.Find(name);
    bool waits = op->kind_ == Op::Kind::kReceive && op->state_ == Op::State::kPosted && op->peer_ == peer;
    if (waits) posted.push_back(static_cast<ReceiveOp*>(op));
  }
  std::sort(posted.begin(), posted.end(), [](const Op* one, const Op* other) { return one->order_ < other->order_; });
  for (ReceiveOp* op : posted) SayAhead(op);
  PumpWaiting(peer);
}

void Core::OnPeerDown(PeerLink* peer, const Status& why) {
  // What waits at its sender is gone; what has come, has come.
  for (Kept* kept : matcher_.AllOf(peer)) {
    if (kept->offer) Forget(kept);
  }
  EndAllOf(peer, why, false);
  Tell(peer, PeerEvent::kDown, why);
}

void Core::OnDialFailed(PeerLink* peer, const Status& why) {
  // Waiting for the peer does not help if it does not want us, or if it is we who have no descriptor left.
  bool hopeless = why.code() == Code::kRefused || why.code() == Code::kOverloaded || limits_.patience_ns <= 0;
  if (hopeless) EndAllOf(peer, why, true);
}

// ---- what is said ----

ConstBytes Core::Scratch(wire::P2pVerb verb, std::initializer_list<uint64_t> numbers, ConstBytes one,
                         const std::vector<ConstBytes>& parts) {
  size_t size = numbers.size() * sizeof(uint64_t) + one.size + static_cast<size_t>(TotalOf(parts));
  if (scratch_.size() < size) scratch_.resize(std::max<size_t>(size, 4096));
  Bytes room(scratch_.data(), size);
  room = room.From(wire::EncodeP2p(verb, numbers.begin(), room));
  CopyBytes(room, one);
  room = room.From(one.size);
  for (const ConstBytes& part : parts) {
    CopyBytes(room, part);
    room = room.From(part.size);
  }
  return ConstBytes(scratch_.data(), size);
}

void Core::Say(Lane* lane, wire::P2pVerb verb, uint64_t call, uint32_t aux, std::initializer_list<uint64_t> numbers,
               ConstBytes behind) {
  pipe::Pipe* pipe = lane->pipe();
  if (pipe == nullptr) return;
  pipe::Message message;
  message.method = static_cast<uint16_t>(verb);
  message.call = call;
  message.aux = aux;
  message.head = Scratch(verb, numbers, behind, {});
  message.express = true;
  if (!pipe->HasRoom(message.head.size)) {
    pipe->Close(Status::Overloaded("the peer does not take messages as fast as they come").Next("send less at a time"));
    return;
  }
  pipe->Send(std::move(message));
}

void Core::SayTaken(PeerLink* peer, uint64_t send, const Status& status) {
  if (peer->lane() == nullptr) return;
  std::string words;
  if (!status.ok()) wire::AppendStatus(status, &words);
  Say(peer->lane(), wire::P2pVerb::kTaken, send, static_cast<uint32_t>(status.code()), {}, words);
}

// Small: copied, and with the network as far as the caller can tell. Else the pipe holds the memory, and OnPiped
// follows. False: `op` has ended, because it can not be sent.
bool Core::SendBody(Op* op, Lane* lane, wire::P2pVerb verb, uint64_t call, uint32_t aux,
                    std::initializer_list<uint64_t> numbers, ConstBytes head, const std::vector<ConstBytes>& parts,
                    bool express) {
  pipe::Pipe* pipe = lane->pipe();
  pipe::Message message;
  message.method = static_cast<uint16_t>(verb);
  message.call = call;
  message.aux = aux;
  message.express = express;
  if (express && TotalOf(parts) <= kInlineBytes) {
    message.head = Scratch(verb, numbers, head, parts);
  } else {
    message.head = Scratch(verb, numbers, head, {});
    message.body.reserve(parts.size());
    for (const ConstBytes& part : parts) {
      if (!part.empty()) message.body.push_back(Buffer::WrapReadOnly(part, nullptr, nullptr));
    }
  }
  Status fits = pipe->CheckSize(message.head.size, message.body);
  if (fits.ok() && !pipe->HasRoom(message.head.size)) {
    fits = Status::Overloaded("the peer does not take messages as fast as they come")
               .Next("wait for operations before you post more");
  }
  if (!fits.ok()) {
    EndOnceReleased(op, fits);
    return false;
  }
  if (message.body.empty()) {
    pipe->Send(std::move(message));
    return true;
  }
  ++op->in_pipe_;
  op->lane_ = lane;
  op->state_ = Op::State::kSending;
  uint64_t name = op->id_.load(std::memory_order_relaxed);
  pipe->Send(std::move(message), [this, name](Status status) { OnPiped(name, status); });
  return true;
}

void Core::OnPiped(uint64_t name, const Status& status) {
  Op* op = ops_.Find(name);
  FUSEWIRE_CHECK(op != nullptr);
  if (--op->in_pipe_ > 0) return;
  if (op->state_ == Op::State::kEnding) {
    Status why = std::move(op->status_);
    End(op, why);
  } else if (!status.ok()) {
    End(op, status);
  } else if (op->taken_ || !op->wants_word_) {
    End(op, Status::Ok());
  } else {
    op->state_ = Op::State::kSent;
  }
}

// ---- what comes ----

Op* Core::FindOp(uint64_t name, Op::Kind kind, const PeerLink& peer) {
  Op* op = ops_.Find(name);
  return op != nullptr && op->kind_ == kind && op->with_ == &peer && op->state_ != Op::State::kEnding ? op : nullptr;
}

void Core::MakeLanding(Op* op, const std::vector<Bytes>& parts, uint64_t bytes) {
  op->landing_.clear();
  for (const Bytes& part : parts) {
    if (bytes == 0) break;
    if (part.size == 0) continue;
    auto size = static_cast<size_t>(std::min<uint64_t>(part.size, bytes));
    op->landing_.push_back(part.Sub(0, size));
    bytes -= size;
  }
}

Result<pipe::Landing> Core::LandInto(Lane& lane, const wire::FrameHeader& header, Op* op) {
  Arriving* arriving = lane.Take(header.call);
  if (arriving == nullptr) return Status::Corrupt("a third body inside two others");
  arriving->op = op->id_.load(std::memory_order_relaxed);
  op->state_ = Op::State::kLanding;
  op->lane_ = &lane;
  return pipe::Landing::Into(op->landing_.data(), op->landing_.size());
}

Result<pipe::Landing> Core::LandNowhere(Lane& lane, const wire::FrameHeader& header, Status why) {
  Arriving* arriving = lane.Take(header.call);
  if (arriving == nullptr) return Status::Corrupt("a third body inside two others");
  arriving->refusal = std::move(why);
  return pipe::Landing::Discard();
}

Result<pipe::Landing> Core::OnHeader(Lane& lane, PeerLink& peer, const wire::FrameHeader& header, ConstBytes meta) {
  if (header.body_bytes == 0) return pipe::Landing::View();
  Result<wire::P2pMessage> decoded = wire::DecodeP2p(header, meta);
  if (!decoded.ok()) return decoded.status();
  const wire::P2pMessage& message = decoded.value();
  if (peer.lane() != &lane) return Status::Corrupt(std::string(wire::P2pVerbName(message.verb)) + ": before use");
  if (lane.Find(header.call) != nullptr) return Status::Corrupt("two bodies of one name");
  switch (message.verb) {
    case wire::P2pVerb::kEager: return OnEagerHeader(lane, peer, header, message);
    case wire::P2pVerb::kData: return OnDataHeader(lane, peer, header, message);
    case wire::P2pVerb::kPut: return OnPutHeader(lane, header, message);
    default: return OnGotHeader(lane, peer, header, message);
  }
}

Status Core::OnMessage(Lane& lane, PeerLink& peer, const wire::FrameHeader& header, ConstBytes meta) {
  Result<wire::P2pMessage> decoded = wire::DecodeP2p(header, meta);
  if (!decoded.ok()) return decoded.status();
  // Nothing here waits for the application: what is kept has bounds of its own.
  if (pipe::Pipe* pipe = lane.pipe()) pipe->Consume(header);
  const wire::P2pMessage& message = decoded.value();
  if (message.verb == wire::P2pVerb::kOpen) return peer.OnOpenSaid(&lane, message);
  if (message.verb == wire::P2pVerb::kUse) return peer.OnUseSaid(&lane, message.id);
  if (peer.lane() != &lane) {
    if (lane.pipe() == nullptr) return Status::Ok();
    return Status::Corrupt(std::string(wire::P2pVerbName(message.verb)) + ": before use");
  }
  return OnVerb(lane, peer, header, message);
}

Status Core::OnVerb(Lane& lane, PeerLink& peer, const wire::FrameHeader& header, const wire::P2pMessage& message) {
  switch (message.verb) {
    case wire::P2pVerb::kEager: return OnEager(lane, peer, header, message);
    case wire::P2pVerb::kOffer: return OnOffered(peer, message);
    case wire::P2pVerb::kPull: return OnPull(peer, message);
    case wire::P2pVerb::kData: return OnData(lane, peer, header, message);
    case wire::P2pVerb::kTaken: return OnTaken(peer, message);
    case wire::P2pVerb::kWithdraw: return OnWithdraw(peer, message);
    case wire::P2pVerb::kAhead: return OnAhead(peer, message);
    case wire::P2pVerb::kCredit: peer.credit += message.id; return Status::Ok();
    case wire::P2pVerb::kPut: return OnPut(lane, peer, header, message);
    case wire::P2pVerb::kGet: return OnGet(lane, peer, message);
    default: return OnGot(lane, peer, header, message);
  }
}

Status Core::OnTaken(PeerLink& peer, const wire::P2pMessage& message) {
  Status status;
  if (message.aux != 0) FUSEWIRE_TRY(wire::DecodeStatus(static_cast<Code>(message.aux), message.payload, &status));
  Op* op = FindOp(message.id, Op::Kind::kSend, peer);
  if (op == nullptr) op = FindOp(message.id, Op::Kind::kPut, peer);
  using State = Op::State;
  bool waits = op != nullptr && (op->state_ == State::kOffered || op->state_ == State::kSending ||
                                 op->state_ == State::kSent);
  if (!waits) {
    if (!status.ok()) Tell(&peer, PeerEvent::kRefused, status.Peer(peer.Words()));
    return Status::Ok();  // it has ended, or did not want to know
  }
  if (!status.ok()) {
    EndOnceReleased(op, status);
  } else if (op->state_ == State::kOffered) {
    return Status::Corrupt("taken: a message that was not sent");
  } else if (op->in_pipe_ > 0) {
    op->taken_ = true;  // the network has not yet said that it is done
  } else {
    End(op, Status::Ok());
  }
  return Status::Ok();
}

}  // namespace p2p
}  // namespace fusewire
