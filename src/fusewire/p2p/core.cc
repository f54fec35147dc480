// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The life of an operation: begun, sent or made to wait, ended once.
#include "fusewire/p2p/core.h"

#include <algorithm>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/log.h"
#include "fusewire/base/random.h"

namespace fusewire {
namespace p2p {
namespace {

// How often we look whether a pipe still sends what an ended operation waits for, and what counts as sending.
constexpr int64_t kReleaseLookNs = 1 * kSecondNs;
constexpr uint64_t kReleaseProgressBytes = 4096;
// An eager message is express, so it fits in any chunk that we might agree on, and in a kept copy.
uint64_t EagerBytesMax(const Limits& limits, const pipe::Options& options) {
  uint64_t chunk = options.limits.chunk_bytes_max;
  uint64_t around = wire::kHeaderBytes + wire::kP2pHeadBytesMax + 1024;
  return std::min<uint64_t>({limits.eager_bytes_max, kCopyBytesMax - 1, chunk > around ? chunk - around : 0});
}

const char* const kKindNames[] = {"send", "receive", "put", "get", "await a signal", "await a peer"};

Status WasClosed() {
  return Status::Unavailable("the endpoint was closed").Next("nothing, if the task has ended as it should");
}

}  // namespace

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

Core::~Core() {
  peers_.clear();  // their pipes let go of the memory that ended operations still wait for
  FUSEWIRE_CHECK(ops_.in_use() == 0);
}

Result<PeerLink*> Core::PeerNamed(const std::string& name) {
  FUSEWIRE_AT_HOME(home_);
  // Who was still greeting when we closed: it must not take its pipe for a new beginning.
  if (closed_) return WasClosed();
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
  op->pushed_ = 0;
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
  if (op->pushed_ > 0) op->with_->pushes.Ended(std::exchange(op->pushed_, 0));
  op->state_ = Op::State::kEndMailed;
  if (beginning_ && op->then) {
    ++ends_later_;
    ended_.PushBack(op);
    home_.FlushLater(&ends_);
  } else {
    Finish(op);
  }
  if (freed != nullptr && !freed->waiting.empty() && !closed_) {
    home_.Post([this, freed] { PumpWaiting(freed); });
  }
}

void Core::FinishMailed(Op* op) {
  --ends_later_;
  Finish(op);
}

// A caller who only hands something in may hold his locks: then it is for the next who turns the loop.
void Core::FinishEnded() {
  List<Op> now;
  now.TakeAll(&ended_);
  while (Op* op = now.PopFront()) {
    if (home_.handing_in()) {
      home_.Post(static_cast<Mail*>(op));
    } else {
      FinishMailed(op);
    }
  }
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
  std::string last =
      waits && !op->peer_->last_failure().ok() ? ", last error: " + op->peer_->last_failure().cause() : "";
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
  // Also one whose body is on its way, or was not wanted: what is left of it there must not be asked for any more.
  if (up && op->kind_ == Op::Kind::kSend && op->offered_) {
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
  Leave(false);
}

bool Core::Leave(bool at_once) {
  FUSEWIRE_AT_HOME(home_);
  bool left = ops_under_way() == 0;
  for (auto& [name, peer] : peers_) {
    if (!peer->Leave(at_once, WasClosed())) left = false;
  }
  return left;
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

}  // namespace p2p
}  // namespace fusewire
