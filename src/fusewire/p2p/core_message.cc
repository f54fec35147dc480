// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Where a send meets its receive. docs/p2p.md draws the exchanges.
#include <algorithm>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/p2p/core.h"

namespace fusewire {
namespace p2p {
namespace {

// What a small message costs beyond its bytes.
constexpr uint64_t kKeptCostBytes = 64;
// Of receives that a handler of offers gave: they are not posted again.
constexpr uint64_t kGivenOrder = UINT64_MAX;
// Twice: once to a receive that had gone, once to the next.
constexpr uint32_t kInPipeMax = 2;

// The body of an offer goes with it up to this, and as long as it is express: so offers keep their order.
constexpr uint64_t kPushBytesMax = 128 * 1024;
bool MayPush(const SendOp& op, uint64_t bytes, const pipe::Pipe& pipe) {
  const uint64_t around =
      wire::kHeaderBytes + (wire::kP2pNumbersMax + op.parts.size()) * sizeof(uint64_t) + op.head.size;
  return bytes > kInlineBytes && bytes <= kPushBytesMax && pipe.GoesAtOnce(around + bytes);
}

Status TooLarge(uint64_t bytes, uint64_t room) {
  return Status::Invalid("a message of " + std::to_string(bytes) + " bytes for a landing of " + std::to_string(room))
      .Next("post a larger landing, or send less");
}

}  // namespace

// ---- sending ----

bool Core::DispatchSend(SendOp* op) {
  PeerLink* peer = op->peer_;
  const wire::Limits& limits = shared_.options().limits;
  uint64_t bytes = TotalOf(op->parts);
  if (op->head.size > wire::kP2pHeadBytesMax || bytes > limits.body_bytes_max ||
      op->parts.size() > limits.segments_max) {
    End(op, Status::Invalid("a message of " + std::to_string(bytes) + " bytes in " + std::to_string(op->parts.size()) +
                            " parts with a head of " + std::to_string(op->head.size) + " is over the limits")
                .Next("send it in several messages"));
    return true;
  }
  uint64_t cost = kKeptCostBytes + op->head.size + bytes;
  bool eager = bytes <= peer->eager_bytes_max && cost <= peer->credit;
  if (!eager && peer->offers_out >= peer->offers_max) return false;
  Aheads::Ahead ahead = peer->aheads.Take(op->tag);
  if (ahead.receive == 0) peer->aheads.OnUnaddressed(op->tag);
  uint64_t call = op->id_.load(std::memory_order_relaxed) | wire::kP2pMine;
  auto head_bytes = static_cast<uint32_t>(op->head.size);
  op->wants_word_ = op->confirm || !eager;
  if (eager) {
    peer->credit -= cost;
    uint32_t aux = head_bytes | (op->confirm ? wire::kP2pConfirmEager : 0);
    if (!SendBody(op, peer->lane(), wire::P2pVerb::kEager, call, aux, {op->tag, ahead.receive}, op->head, op->parts,
                  true)) {
      return true;
    }
    if (op->in_pipe_ > 0) return true;
    op->state_ = Op::State::kSent;
    if (!op->confirm) End(op, Status::Ok());
    return true;
  }
  ++peer->offers_out;
  op->offered_ = true;
  op->state_ = Op::State::kOffered;
  const bool awaited = ahead.receive != 0 && bytes <= ahead.bytes;
  if (MayPush(*op, bytes, *peer->pipe()) && (awaited || peer->pushes.Worth(bytes))) {
    if (!SendBody(op, peer->lane(), wire::P2pVerb::kOffer, call, head_bytes, {op->tag, ahead.receive, bytes}, op->head,
                  op->parts, true)) {
      return true;
    }
    op->pushed_ = bytes;
    peer->pushes.Pushed(bytes);
    return true;
  }
  Say(peer->lane(), wire::P2pVerb::kOffer, call, head_bytes, {op->tag, ahead.receive, bytes}, op->head);
  if (awaited) SendData(op, ahead.receive);
  return true;
}

void Core::SendData(SendOp* op, uint64_t receive) {
  Lane* lane = op->peer_->lane();
  if (lane->pipe() == nullptr) return;  // it is about to be down
  uint64_t name = op->id_.load(std::memory_order_relaxed);
  if (!SendBody(op, lane, wire::P2pVerb::kData, receive, 0, {name}, ConstBytes(), op->parts, false)) return;
  if (op->in_pipe_ == 0) op->state_ = Op::State::kSent;
}

Status Core::OnPull(PeerLink& peer, const wire::P2pMessage& message) {
  Op* op = FindOp(message.id, Op::Kind::kSend, peer);
  if (op == nullptr || !op->offered_) return Status::Ok();  // it was given up, and the peer will hear of it
  if (op->in_pipe_ >= kInPipeMax) return Status::Corrupt("pull: again and again");
  const bool pushed = op->pushed_ > 0;
  if (pushed) peer.pushes.Ended(std::exchange(op->pushed_, 0));
  if (pushed || (message.aux & wire::kP2pWaited) == 0) {
    peer.pushes.Late(pushed);
  } else {
    peer.pushes.Waited(false);
  }
  SendData(static_cast<SendOp*>(op), message.numbers[0]);
  return Status::Ok();
}

Status Core::OnAhead(PeerLink& peer, const wire::P2pMessage& message) {
  Aheads::Ahead ahead{message.numbers[0], message.id, message.numbers[1]};
  if (peer.aheads.OnAhead(ahead, message.numbers[2])) return Status::Ok();
  return Status::Corrupt("ahead: seen " + std::to_string(message.numbers[2]) + " messages, more than were sent");
}

// ---- receiving: our side ----

void Core::BeginReceive(ReceiveOp* op) {
  if (Kept* kept = matcher_.FindKept(op->peer_, op->tag)) {
    TakeKept(op, kept);
  } else {
    PostReceive(op);
  }
}

void Core::PostReceive(ReceiveOp* op) {
  op->state_ = Op::State::kPosted;
  bool is_new = op->order_ == 0;
  matcher_.Post(op);
  if (op->peer_ == nullptr || !is_new) return;
  SayAhead(op);
  op->peer_->Want();
}

// A receive for large messages tells its peer. One from anybody that was posted before comes first, wherever its
// message is from.
void Core::SayAhead(ReceiveOp* op) {
  PeerLink* peer = op->peer_;
  if (peer->pipe() == nullptr || op->room_ <= peer->eager_bytes_max) return;
  if (matcher_.AnyWaits(op->tag, op->order_)) return;
  Say(peer->lane(), wire::P2pVerb::kAhead, op->id_.load(std::memory_order_relaxed) | wire::kP2pMine, 0,
      {op->tag, op->room_, peer->unaddressed_in});
}

// The receive has its message, which may still be on its way. False: it does not fit, and the receive has ended.
bool Core::Claim(ReceiveOp* op, PeerLink* peer, uint64_t bytes, ConstBytes head) {
  Op* base = op;
  base->Unlink();
  base->with_ = peer;
  op->source = peer;
  op->bytes = bytes;
  op->head.assign(reinterpret_cast<const char*>(head.data), head.size);
  return bytes <= op->room_;
}

void Core::TakeKept(ReceiveOp* op, Kept* kept) {
  PeerLink* peer = kept->peer;
  uint64_t send = kept->send;
  bool offer = kept->offer, confirm = kept->confirm;
  if (!Claim(op, peer, kept->bytes, kept->head)) {
    Status why = TooLarge(kept->bytes, op->room_);
    if (kept->arriving) {
      kept->Unlink();
      kept->matched = true;
    } else {
      Forget(kept);
    }
    EndReceive(op, peer, send, confirm, why);
  } else if (kept->arriving) {
    kept->Unlink();
    kept->matched = true;
    kept->op = op;
    op->arriving_ = kept;
    op->remote_id_ = send;
    op->state_ = Op::State::kPulling;
  } else if (offer) {
    Forget(kept);
    Pull(op, peer, send, 0);
  } else {
    Scatter(kept->data.bytes(), op->parts);
    Forget(kept);
    EndReceive(op, peer, send, confirm, Status::Ok());
  }
}

void Core::EndReceive(ReceiveOp* op, PeerLink* peer, uint64_t send, bool confirm, const Status& status) {
  if (confirm || !status.ok()) SayTaken(peer, send, status);
  End(op, status);
}

void Core::Pull(ReceiveOp* op, PeerLink* peer, uint64_t send, uint32_t aux) {
  op->state_ = Op::State::kPulling;
  op->remote_id_ = send;
  MakeLanding(op, op->parts, op->bytes);
  if (peer->lane() != nullptr) {
    Say(peer->lane(), wire::P2pVerb::kPull, send, aux, {op->id_.load(std::memory_order_relaxed)});
  }
}

// ---- what is kept ----

void Core::Forget(Kept* kept) {
  PeerLink* peer = kept->peer;
  if (kept->op != nullptr) std::exchange(kept->op, nullptr)->arriving_ = nullptr;
  if (kept->offer) --peer->offers_held;
  uint64_t cost = kept->cost;
  peer->kept_bytes -= cost;
  matcher_.Free(kept);
  if (cost > 0) Owe(peer, cost);
}

void Core::OnKeptLost(Kept* kept) { Forget(kept); }

// The peer may send as much again; it hears of it when it is worth a message.
void Core::Owe(PeerLink* peer, uint64_t cost) {
  if (peer->pipe() == nullptr) return;  // the next pipe begins with all that there is
  peer->owed += cost;
  if (peer->owed < limits_.kept_bytes_max / 2) return;
  uint64_t owed = std::exchange(peer->owed, 0);
  peer->promised += owed;
  Say(peer->lane(), wire::P2pVerb::kCredit, owed, 0, {});
}

// ---- receiving: what comes ----

// The receive that this message goes to, which is not posted any more; or null: `refusal` says why nobody gets it, or
// it is to be kept.
ReceiveOp* Core::FindReceiveFor(PeerLink& peer, uint64_t tag, uint64_t send, uint64_t bytes, ConstBytes head,
                                Status* refusal) {
  ReceiveOp* op = matcher_.FindReceive(&peer, tag);
  for (size_t i = offer_ranges_.size(); op == nullptr && i-- > 0;) {
    OfferRange& range = *offer_ranges_[i];
    if (tag < range.tag_min || tag > range.tag_max) continue;
    OfferAnswer answer = range.on_offer(Offer{peer, tag, bytes, head});
    *refusal = answer.why;
    if (answer.into == nullptr) return nullptr;
    op = answer.into;
    FUSEWIRE_CHECK(op->peer_ == nullptr || op->peer_ == &peer);
    op->Prepare(Op::kPending);
    if (!Enter(op)) return nullptr;
    op->order_ = kGivenOrder;
    op->room_ = TotalOf(op->parts);
  }
  if (op == nullptr) return nullptr;
  op->remote_id_ = send;
  if (Claim(op, &peer, bytes, head)) return op;
  *refusal = TooLarge(bytes, op->room_);
  End(op, *refusal);
  return nullptr;
}

Status Core::CheckEager(PeerLink& peer, const wire::P2pMessage& message, uint64_t bytes, uint64_t* cost) {
  *cost = kKeptCostBytes + message.head_bytes + bytes;
  if (bytes > eager_bytes_max_) {
    return Status::Corrupt("eager: " + std::to_string(bytes) + " bytes, limit " + std::to_string(eager_bytes_max_));
  }
  if (*cost > peer.promised) {
    return Status::Corrupt("eager: cost " + std::to_string(*cost) + ", credit " + std::to_string(peer.promised));
  }
  peer.promised -= *cost;
  if (message.numbers[1] == 0) ++peer.unaddressed_in;
  return Status::Ok();
}

// A new one, in its order.
Kept* Core::Keep(PeerLink& peer, const wire::P2pMessage& message, uint64_t bytes, uint64_t cost) {
  Kept* kept = matcher_.New();
  kept->peer = &peer;
  kept->tag = message.numbers[0];
  kept->send = message.id;
  kept->bytes = bytes;
  kept->cost = cost;
  kept->offer = message.verb == wire::P2pVerb::kOffer;
  kept->confirm = kept->offer || (message.aux & wire::kP2pConfirmEager) != 0;
  kept->head.assign(reinterpret_cast<const char*>(message.head.data), message.head.size);
  peer.kept_bytes += cost;
  if (kept->offer) ++peer.offers_held;
  matcher_.Keep(kept);
  return kept;
}

Result<pipe::Landing> Core::OnEagerHeader(Lane& lane, PeerLink& peer, const wire::FrameHeader& header,
                                          const wire::P2pMessage& message) {
  uint64_t cost = 0;
  FUSEWIRE_TRY(CheckEager(peer, message, header.body_bytes, &cost));
  Status refusal;
  ReceiveOp* op = FindReceiveFor(peer, message.numbers[0], message.id, header.body_bytes, message.head, &refusal);
  if (op != nullptr) {
    MakeLanding(op, op->parts, op->bytes);
    return LandInto(lane, header, op);
  }
  Buffer memory = refusal.ok() ? Buffer::TryAllocate(static_cast<size_t>(header.body_bytes)) : Buffer();
  if (refusal.ok() && memory.empty()) refusal = Status::Overloaded("no memory for a small message");
  if (!refusal.ok()) return LandNowhere(lane, header, refusal);
  Arriving* arriving = lane.Take(header.call);
  if (arriving == nullptr) return Status::Corrupt("a third body inside two others");
  Kept* kept = Keep(peer, message, header.body_bytes, cost);
  kept->data = std::move(memory);
  kept->arriving = true;
  arriving->kept = kept;
  arriving->part = kept->data.bytes();
  return pipe::Landing::Into(&arriving->part, 1);
}

Status Core::OnEager(Lane& lane, PeerLink& peer, const wire::FrameHeader& header, const wire::P2pMessage& message) {
  bool confirm = (message.aux & wire::kP2pConfirmEager) != 0;
  uint64_t cost = 0;
  if (header.body_bytes > 0) {
    cost = kKeptCostBytes + message.head_bytes + header.body_bytes;
    return OnEagerLanded(lane.Find(header.call), peer, message, cost);
  }
  FUSEWIRE_TRY(CheckEager(peer, message, message.payload.size, &cost));
  Status refusal;
  ReceiveOp* op = FindReceiveFor(peer, message.numbers[0], message.id, message.payload.size, message.head, &refusal);
  if (op == nullptr && refusal.ok()) {
    Keep(peer, message, message.payload.size, cost)->data = Buffer::CopyOf(message.payload);
    return Status::Ok();
  }
  Owe(&peer, cost);
  if (op == nullptr) {
    SayTaken(&peer, message.id, refusal);
    return Status::Ok();
  }
  Scatter(message.payload, op->parts);
  EndReceive(op, &peer, message.id, confirm, Status::Ok());
  return Status::Ok();
}

// Its body is where OnEagerHeader said.
Status Core::OnEagerLanded(Arriving* arriving, PeerLink& peer, const wire::P2pMessage& message, uint64_t cost) {
  FUSEWIRE_CHECK(arriving != nullptr);
  Arriving landed = std::move(*arriving);
  arriving->used = false;
  bool confirm = (message.aux & wire::kP2pConfirmEager) != 0;
  if (landed.kept != nullptr) {
    Kept* kept = landed.kept;
    kept->arriving = false;
    if (!kept->matched) return Status::Ok();
    auto* op = static_cast<ReceiveOp*>(kept->op);
    if (op != nullptr) Scatter(kept->data.bytes(), op->parts);
    Forget(kept);
    if (op != nullptr) EndReceive(op, &peer, message.id, confirm, Status::Ok());
    return Status::Ok();
  }
  Owe(&peer, cost);
  if (!landed.refusal.ok()) SayTaken(&peer, message.id, landed.refusal);
  Op* op = landed.op == 0 ? nullptr : ops_.Find(landed.op);
  if (op != nullptr) EndReceive(static_cast<ReceiveOp*>(op), &peer, message.id, confirm, Status::Ok());
  return Status::Ok();
}

// Its receive, or null: then it is kept, or nobody gets it for that reason.
Status Core::MeetOffer(PeerLink& peer, const wire::P2pMessage& message, ReceiveOp** receive, Status* refusal) {
  const uint64_t bytes = message.numbers[2];
  if (message.numbers[1] == 0) ++peer.unaddressed_in;
  *receive = nullptr;
  if (bytes > shared_.options().limits.body_bytes_max) {
    *refusal = TooLarge(bytes, shared_.options().limits.body_bytes_max);
    return Status::Ok();
  }
  *receive = FindReceiveFor(peer, message.numbers[0], message.id, bytes, message.head, refusal);
  if (*receive != nullptr || !refusal->ok()) return Status::Ok();
  if (peer.offers_held >= limits_.offers_max)
    return Status::Corrupt("offer: more than offers_max " + std::to_string(limits_.offers_max));
  Keep(peer, message, bytes, 0);
  return Status::Ok();
}

Status Core::OnOffered(PeerLink& peer, const wire::P2pMessage& message) {
  ReceiveOp* op = nullptr;
  Status refusal;
  FUSEWIRE_TRY(MeetOffer(peer, message, &op, &refusal));
  if (!refusal.ok()) {
    SayTaken(&peer, message.id, refusal);
  } else if (op == nullptr) {
    // It waits at its sender.
  } else if (op->id_.load(std::memory_order_relaxed) == message.numbers[1]) {
    op->state_ = Op::State::kPulling;  // no need to ask: its data follows
    MakeLanding(op, op->parts, op->bytes);
  } else {
    Pull(op, &peer, message.id, wire::kP2pWaited);
  }
  return Status::Ok();
}

// An offer with its body, which goes nowhere if no receive waits for it: then it is asked for as if it had not come.
Result<pipe::Landing> Core::OnPushedHeader(Lane& lane, PeerLink& peer, const wire::FrameHeader& header,
                                           const wire::P2pMessage& message) {
  if (header.body_bytes != message.numbers[2]) {
    return Status::Corrupt("offer: " + std::to_string(header.body_bytes) + " bytes where " +
                           std::to_string(message.numbers[2]) + " were offered");
  }
  ReceiveOp* op = nullptr;
  Status refusal;
  FUSEWIRE_TRY(MeetOffer(peer, message, &op, &refusal));
  if (op == nullptr) return LandNowhere(lane, header, refusal);
  MakeLanding(op, op->parts, op->bytes);
  return LandInto(lane, header, op);
}

// The body of a large message is where its header was answered; `send` is its sender's name for it.
Status Core::OnLanded(Lane& lane, PeerLink& peer, uint64_t call, uint64_t send) {
  Arriving* arriving = lane.Find(call);
  FUSEWIRE_CHECK(arriving != nullptr);
  const Arriving landed = std::move(*arriving);
  arriving->used = false;
  if (!landed.refusal.ok()) SayTaken(&peer, send, landed.refusal);
  Op* op = landed.op == 0 ? nullptr : ops_.Find(landed.op);
  if (op != nullptr) EndReceive(static_cast<ReceiveOp*>(op), &peer, send, true, Status::Ok());
  return Status::Ok();
}

Result<pipe::Landing> Core::OnDataHeader(Lane& lane, PeerLink& peer, const wire::FrameHeader& header,
                                         const wire::P2pMessage& message) {
  auto* op = static_cast<ReceiveOp*>(FindOp(message.id, Op::Kind::kReceive, peer));
  bool awaited = op != nullptr && op->state_ == Op::State::kPulling && op->arriving_ == nullptr &&
                 op->remote_id_ == message.numbers[0];
  // Its receive has gone, or was given another message: then the sender is asked again, or has been told.
  if (!awaited) return LandNowhere(lane, header, Status::Ok());
  if (header.body_bytes != op->bytes) {
    return Status::Corrupt("data: " + std::to_string(header.body_bytes) + " bytes where " + std::to_string(op->bytes) +
                           " were offered");
  }
  return LandInto(lane, header, op);
}

Status Core::OnData(Lane& lane, PeerLink& peer, const wire::FrameHeader& header, const wire::P2pMessage& message) {
  uint64_t send = message.numbers[0];
  if (header.body_bytes > 0) return OnLanded(lane, peer, header.call, send);
  auto* op = static_cast<ReceiveOp*>(FindOp(message.id, Op::Kind::kReceive, peer));
  bool awaited = op != nullptr && op->state_ == Op::State::kPulling && op->arriving_ == nullptr &&
                 op->remote_id_ == send && op->bytes == 0;
  if (awaited) EndReceive(op, &peer, send, true, Status::Ok());
  return Status::Ok();
}

// Its sender gave it up: a receive that waits for it goes back to its place.
Status Core::OnWithdraw(PeerLink& peer, const wire::P2pMessage& message) {
  if (Kept* kept = matcher_.FindOffer(&peer, message.numbers[0], message.id)) {
    Forget(kept);
    return Status::Ok();
  }
  for (uint64_t name : ops_.Names()) {
    Op* found = ops_.Find(name);
    bool awaits = found->kind_ == Op::Kind::kReceive && found->with_ == &peer && found->remote_id_ == message.id &&
                  found->state_ == Op::State::kPulling && found->arriving_ == nullptr;
    if (!awaits) continue;
    auto* op = static_cast<ReceiveOp*>(found);
    if (found->order_ == kGivenOrder) {
      End(op, Status::Cancelled("the sender gave it up").Next("nothing; what it sends next is offered anew"));
      return Status::Ok();
    }
    found->with_ = found->peer_;
    found->remote_id_ = 0;
    op->source = nullptr;
    op->bytes = 0;
    op->head.clear();
    if (Kept* kept = matcher_.FindKept(found->peer_, op->tag)) {
      TakeKept(op, kept);
    } else {
      PostReceive(op);
    }
    return Status::Ok();
  }
  return Status::Ok();
}

}  // namespace p2p
}  // namespace fusewire
