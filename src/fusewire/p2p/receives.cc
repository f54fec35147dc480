// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/p2p/receives.h"

#include <algorithm>
#include <string>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/p2p/flow.h"

namespace fusewire::p2p {
namespace {

// The order of receives that came from a handler of offers: they are not posted again.
constexpr uint64_t kGivenOrder = UINT64_MAX;

Status TooLarge(uint64_t bytes, uint64_t room) {
  return Status::Invalid("a message of " + std::to_string(bytes) + " bytes for a landing of " + std::to_string(room))
      .Next("post a larger landing, or send less");
}

Status OverBodyBytesMax(uint64_t bytes, uint64_t body_bytes_max) {
  return Status::Invalid("a message of " + std::to_string(bytes) + " bytes, body_bytes_max of the receiver is " +
                         std::to_string(body_bytes_max))
      .Next("send it in several messages, or raise the receiver's body_bytes_max");
}

Status WrongSize(const char* verb, uint64_t body_bytes, uint64_t offered) {
  return Status::Corrupt(std::string(verb) + ": body_bytes " + std::to_string(body_bytes) + ", where " +
                         std::to_string(offered) + " were offered");
}

// Whether it waits for the body of that message, of which nothing has arrived yet.
bool AwaitsBody(const Op& op, uint64_t send) {
  return op.run.state == OpRun::State::kRequested && op.run.arriving == nullptr && op.run.remote_id == send;
}

}  // namespace

void Receives::HandleOffers(uint64_t tag_min, uint64_t tag_max, OnOffer on_offer) {
  offer_ranges_.push_back(std::make_unique<OfferRange>(OfferRange{tag_min, tag_max, std::move(on_offer)}));
}

// ---- our side ----

void Receives::Begin(ReceiveOp* op) {
  op->run.room = TotalOf(op->segments);
  MatchOrPost(op);
}

void Receives::MatchOrPost(ReceiveOp* op) {
  if (UnexpectedMessage* unexpected = matcher_.FindUnexpected(op->peer(), op->tag)) {
    TakeUnexpected(op, unexpected);
  } else {
    Post(op);
  }
}

void Receives::Post(ReceiveOp* op) {
  table_.Posted(op);
  bool is_new = op->run.order == 0;
  matcher_.Post(op);
  if (op->peer() == nullptr || !is_new) return;
  SendPosted(op);
  op->peer()->Want();
}

// Only a receive for large messages notifies its peer; and not behind a receive from any peer, which would take the
// message first.
void Receives::SendPosted(ReceiveOp* op) {
  PeerLink* peer = op->peer();
  if (peer->pipe() == nullptr || op->run.room <= peer->flow.eager_bytes_max) return;
  if (matcher_.AnyWaits(op->tag, op->run.order)) return;
  verbs_.Send(peer->lane(), wire::P2pVerb::kPosted, op->id() | wire::kP2pMine, 0,
              {op->tag, op->run.room, peer->flow.unaddressed_in});
}

void Receives::SendAllPosted(PeerLink* peer) {
  // In the order of posting: in this order the peer uses them.
  std::vector<ReceiveOp*> posted;
  for (uint64_t name : table_.Names()) {
    Op* op = table_.Find(name);
    bool waits = op->kind() == OpKind::kReceive && op->run.state == OpRun::State::kPosted && op->peer() == peer;
    if (waits) posted.push_back(static_cast<ReceiveOp*>(op));
  }
  std::sort(posted.begin(), posted.end(),
            [](const Op* one, const Op* other) { return one->run.order < other->run.order; });
  for (ReceiveOp* op : posted) SendPosted(op);
}

// Binds the receive to a message, which may still be on its way. False: it does not fit, and the receive must end.
bool Receives::Claim(ReceiveOp* op, PeerLink* peer, uint64_t bytes, ConstBytes head) {
  FUSEWIRE_DCHECK(op->peer() == nullptr || op->peer() == peer);
  FUSEWIRE_DCHECK(op->run.arriving == nullptr);
  op->Unlink();
  op->run.with = peer;
  op->source = peer;
  op->bytes = bytes;
  op->head.assign(reinterpret_cast<const char*>(head.data), head.size);
  return bytes <= op->run.room;
}

void Receives::TakeUnexpected(ReceiveOp* op, UnexpectedMessage* unexpected) {
  FUSEWIRE_DCHECK(!unexpected->matched);
  FUSEWIRE_DCHECK(unexpected->op == nullptr);
  PeerLink* peer = unexpected->peer;
  uint64_t send = unexpected->send;
  bool offer = unexpected->offer, confirm = unexpected->confirm;
  if (!Claim(op, peer, unexpected->bytes, unexpected->head)) {
    Status why = TooLarge(unexpected->bytes, op->run.room);
    if (unexpected->arriving) {
      unexpected->Unlink();
      unexpected->matched = true;
    } else {
      unexpected_.Forget(unexpected);
    }
    End(op, peer, send, confirm, why);
  } else if (unexpected->arriving) {
    unexpected->Unlink();
    unexpected->matched = true;
    unexpected->op = op;
    op->run.arriving = unexpected;
    op->run.remote_id = send;
    table_.Requested(op);
  } else if (offer) {
    unexpected_.Forget(unexpected);
    Request(op, peer, send, 0);
  } else {
    Scatter(unexpected->data.bytes(), op->segments);
    unexpected_.Forget(unexpected);
    End(op, peer, send, confirm, Status::Ok());
  }
}

void Receives::Request(ReceiveOp* op, PeerLink* peer, uint64_t send, uint32_t aux) {
  FUSEWIRE_DCHECK(send != 0);
  FUSEWIRE_DCHECK(op->bytes <= op->run.room);
  table_.Requested(op);
  op->run.remote_id = send;
  TakeFront(op->segments, op->bytes, &op->run.landing);
  if (peer->lane() != nullptr) verbs_.Send(peer->lane(), wire::P2pVerb::kRequest, send, aux, {op->id()});
}

void Receives::End(ReceiveOp* op, PeerLink* peer, uint64_t send, bool confirm, const Status& status) {
  if (confirm || !status.ok()) verbs_.SendResult(peer->lane(), send, status);
  table_.End(op, status);
}

// ---- incoming ----

// The receive that a handler of offers gives for the message. Null: `refusal` says why the message is refused; if it is
// ok, the message is an unexpected one.
ReceiveOp* Receives::AskHandlers(const Offer& offer, Status* refusal) {
  for (size_t i = offer_ranges_.size(); i-- > 0;) {
    OfferRange& range = *offer_ranges_[i];
    if (offer.tag < range.tag_min || offer.tag > range.tag_max) continue;
    OfferAnswer answer = range.on_offer(offer);
    *refusal = answer.why;
    ReceiveOp* op = answer.into;
    if (op == nullptr) return nullptr;
    FUSEWIRE_CHECK(op->peer() == nullptr || static_cast<Peer*>(op->peer()) == &offer.peer);
    OpTable::Prepare(op, OpRun::kPending);
    if (!table_.Enter(op)) return nullptr;
    op->run.order = kGivenOrder;
    op->run.room = TotalOf(op->segments);
    return op;
  }
  return nullptr;
}

// Finds the receive for this message, and binds it. Null: as above.
ReceiveOp* Receives::FindReceiveFor(PeerLink& peer, const wire::P2pMessage& message, uint64_t bytes, Status* refusal) {
  const uint64_t tag = message.numbers[0];
  ReceiveOp* op = matcher_.FindReceive(&peer, tag);
  if (op == nullptr) op = AskHandlers(Offer{peer, tag, bytes, message.head}, refusal);
  if (op == nullptr) return nullptr;
  op->run.remote_id = message.id;
  if (Claim(op, &peer, bytes, message.head)) return op;
  *refusal = TooLarge(bytes, op->run.room);
  table_.End(op, *refusal);
  return nullptr;
}

Result<pipe::Landing> Receives::OnEagerHeader(Lane& lane, PeerLink& peer, const wire::FrameHeader& header,
                                              const wire::P2pMessage& message) {
  uint64_t cost = 0;
  FUSEWIRE_TRY(unexpected_.Spend(peer, message, header.body_bytes, &cost));
  Status refusal;
  ReceiveOp* op = FindReceiveFor(peer, message, header.body_bytes, &refusal);
  if (op != nullptr) {
    TakeFront(op->segments, op->bytes, &op->run.landing);
    return table_.LandInto(lane, header, op);
  }
  Buffer memory = refusal.ok() ? Buffer::TryAllocate(static_cast<size_t>(header.body_bytes)) : Buffer();
  if (refusal.ok() && memory.empty()) {
    refusal =
        Status::Overloaded("no memory for an unexpected message of " + std::to_string(header.body_bytes) + " bytes");
  }
  if (!refusal.ok()) return lane.LandNowhere(header.call, refusal);
  Result<Arriving*> taken = lane.Take(header.call);
  if (!taken.ok()) return taken.status();
  Arriving* arriving = taken.value();
  UnexpectedMessage* unexpected = unexpected_.Add(peer, message, header.body_bytes, cost);
  unexpected->data = std::move(memory);
  unexpected->arriving = true;
  arriving->unexpected = unexpected;
  arriving->part = unexpected->data.bytes();
  return pipe::Landing::Into(&arriving->part, 1);
}

Status Receives::OnEager(Lane& lane, PeerLink& peer, const wire::FrameHeader& header, const wire::P2pMessage& message) {
  uint64_t cost = 0;
  if (header.body_bytes > 0) {
    cost = CostOf(message.head_bytes, header.body_bytes);
    return OnEagerLanded(lane.Landed(header.call), peer, message, cost);
  }
  FUSEWIRE_TRY(unexpected_.Spend(peer, message, message.payload.size, &cost));
  Status refusal;
  ReceiveOp* op = FindReceiveFor(peer, message, message.payload.size, &refusal);
  if (op == nullptr && refusal.ok()) {
    unexpected_.Add(peer, message, message.payload.size, cost)->data = Buffer::CopyOf(message.payload);
    return Status::Ok();
  }
  unexpected_.Owe(&peer, cost);
  if (op == nullptr) {
    verbs_.SendResult(peer.lane(), message.id, refusal);
    return Status::Ok();
  }
  Scatter(message.payload, op->segments);
  End(op, &peer, message.id, (message.aux & wire::kP2pConfirmEager) != 0, Status::Ok());
  return Status::Ok();
}

// The body is where OnEagerHeader put it.
Status Receives::OnEagerLanded(const Arriving& landed, PeerLink& peer, const wire::P2pMessage& message, uint64_t cost) {
  bool confirm = (message.aux & wire::kP2pConfirmEager) != 0;
  if (UnexpectedMessage* unexpected = landed.unexpected) {
    FUSEWIRE_DCHECK(unexpected->arriving);
    unexpected->arriving = false;
    if (!unexpected->matched) return Status::Ok();
    ReceiveOp* op = unexpected->op;
    if (op != nullptr) Scatter(unexpected->data.bytes(), op->segments);
    unexpected_.Forget(unexpected);
    if (op != nullptr) End(op, &peer, message.id, confirm, Status::Ok());
    return Status::Ok();
  }
  unexpected_.Owe(&peer, cost);
  if (!landed.refusal.ok()) verbs_.SendResult(peer.lane(), message.id, landed.refusal);
  Op* op = landed.op == 0 ? nullptr : table_.Find(landed.op);
  if (op != nullptr) End(static_cast<ReceiveOp*>(op), &peer, message.id, confirm, Status::Ok());
  return Status::Ok();
}

// Finds the receive for an offer. Null: as above.
Status Receives::MeetOffer(PeerLink& peer, const wire::P2pMessage& message, ReceiveOp** receive, Status* refusal) {
  const uint64_t bytes = message.numbers[2];
  if (message.numbers[1] == 0) ++peer.flow.unaddressed_in;
  *receive = nullptr;
  if (bytes > wire_limits_.body_bytes_max) {
    *refusal = OverBodyBytesMax(bytes, wire_limits_.body_bytes_max);
    return Status::Ok();
  }
  *receive = FindReceiveFor(peer, message, bytes, refusal);
  if (*receive != nullptr || !refusal->ok()) return Status::Ok();
  if (peer.flow.offers_held >= self_.limits.offers_max)
    return Status::Corrupt("offer: " + std::to_string(peer.flow.offers_held) + " wait already, offers_max " +
                           std::to_string(self_.limits.offers_max));
  unexpected_.Add(peer, message, bytes, 0);
  return Status::Ok();
}

Status Receives::OnOffered(Lane& lane, PeerLink& peer, const wire::FrameHeader& header,
                           const wire::P2pMessage& message) {
  return header.body_bytes > 0 ? OnLanded(lane, peer, header.call, message.id) : OnUnpushed(peer, message);
}

Status Receives::OnUnpushed(PeerLink& peer, const wire::P2pMessage& message) {
  ReceiveOp* op = nullptr;
  Status refusal;
  FUSEWIRE_TRY(MeetOffer(peer, message, &op, &refusal));
  if (!refusal.ok()) {
    verbs_.SendResult(peer.lane(), message.id, refusal);
  } else if (op == nullptr) {
    // The body waits at the sender.
  } else if (op->id() == message.numbers[1]) {
    table_.Requested(op);  // the offer named this receive: its data follows without a request
    TakeFront(op->segments, op->bytes, &op->run.landing);
  } else {
    Request(op, &peer, message.id, wire::kP2pWaited);
  }
  return Status::Ok();
}

// An offer with its body. If no receive is posted the body is dropped, and is requested later as if it had not come.
Result<pipe::Landing> Receives::OnPushedHeader(Lane& lane, PeerLink& peer, const wire::FrameHeader& header,
                                               const wire::P2pMessage& message) {
  if (header.body_bytes != message.numbers[2]) return WrongSize("offer", header.body_bytes, message.numbers[2]);
  ReceiveOp* op = nullptr;
  Status refusal;
  FUSEWIRE_TRY(MeetOffer(peer, message, &op, &refusal));
  if (op == nullptr) return lane.LandNowhere(header.call, refusal);
  TakeFront(op->segments, op->bytes, &op->run.landing);
  return table_.LandInto(lane, header, op);
}

// The body of a large message has arrived; `send` is its id at the sender.
Status Receives::OnLanded(Lane& lane, PeerLink& peer, uint64_t call, uint64_t send) {
  const Arriving landed = lane.Landed(call);
  if (!landed.refusal.ok()) verbs_.SendResult(peer.lane(), send, landed.refusal);
  Op* op = landed.op == 0 ? nullptr : table_.Find(landed.op);
  if (op != nullptr) End(static_cast<ReceiveOp*>(op), &peer, send, true, Status::Ok());
  return Status::Ok();
}

// Null: the receive has ended, or has another message. The body is dropped; the sender is asked again, or knows it.
ReceiveOp* Receives::FindRequested(const PeerLink& peer, uint64_t receive, uint64_t send) {
  Op* op = table_.FindOf(receive, OpKind::kReceive, peer);
  return op != nullptr && AwaitsBody(*op, send) ? static_cast<ReceiveOp*>(op) : nullptr;
}

Result<pipe::Landing> Receives::OnDataHeader(Lane& lane, PeerLink& peer, const wire::FrameHeader& header,
                                             const wire::P2pMessage& message) {
  ReceiveOp* op = FindRequested(peer, message.id, message.numbers[0]);
  if (op == nullptr) return lane.LandNowhere(header.call, Status::Ok());
  if (header.body_bytes != op->bytes) return WrongSize("data", header.body_bytes, op->bytes);
  return table_.LandInto(lane, header, op);
}

Status Receives::OnData(Lane& lane, PeerLink& peer, const wire::FrameHeader& header, const wire::P2pMessage& message) {
  uint64_t send = message.numbers[0];
  if (header.body_bytes > 0) return OnLanded(lane, peer, header.call, send);
  ReceiveOp* op = FindRequested(peer, message.id, send);
  if (op != nullptr && op->bytes == 0) End(op, &peer, send, true, Status::Ok());
  return Status::Ok();
}

// The sender gave the message up: a receive that was bound to it goes back to its place.
Status Receives::OnWithdraw(PeerLink& peer, const wire::P2pMessage& message) {
  if (UnexpectedMessage* unexpected = matcher_.FindOffer(&peer, message.numbers[0], message.id)) {
    unexpected_.Forget(unexpected);
    return Status::Ok();
  }
  for (uint64_t name : table_.Names()) {
    Op* op = table_.Find(name);
    if (op->kind() != OpKind::kReceive || op->run.with != &peer || !AwaitsBody(*op, message.id)) continue;
    LoseSender(static_cast<ReceiveOp*>(op));
    return Status::Ok();
  }
  return Status::Ok();
}

void Receives::LoseSender(ReceiveOp* op) {
  FUSEWIRE_DCHECK(op->run.state == OpRun::State::kRequested);
  FUSEWIRE_DCHECK(op->run.arriving == nullptr);
  if (op->run.order == kGivenOrder) {
    table_.End(op,
               Status::Cancelled("the sender gave the message up").Next("nothing; its next message is offered again"));
    return;
  }
  op->run.with = op->peer();
  op->run.remote_id = 0;
  op->source = nullptr;
  op->bytes = 0;
  op->head.clear();
  MatchOrPost(op);
}

// ---- unexpected messages ----

Status Unexpected::Spend(PeerLink& peer, const wire::P2pMessage& message, uint64_t bytes, uint64_t* cost) {
  FUSEWIRE_DCHECK(message.verb == wire::P2pVerb::kEager);
  *cost = CostOf(message.head_bytes, bytes);
  if (bytes > self_.eager_bytes_max) {
    return Status::Corrupt("eager: " + std::to_string(bytes) + " bytes, limit " +
                           std::to_string(self_.eager_bytes_max));
  }
  if (!peer.flow.SpendPromised(*cost)) {
    return Status::Corrupt("eager: cost " + std::to_string(*cost) + ", credit " + std::to_string(peer.flow.promised));
  }
  if (message.numbers[1] == 0) ++peer.flow.unaddressed_in;
  return Status::Ok();
}

void Unexpected::Owe(PeerLink* peer, uint64_t cost) {
  if (peer->pipe() == nullptr) return;  // the next pipe begins with all the credit
  Flow& flow = peer->flow;
  FUSEWIRE_DCHECK(cost >= kUnexpectedCostBytes);
  flow.owed += cost;
  if (flow.owed < self_.limits.unexpected_bytes_max / 2) return;
  uint64_t owed = std::exchange(flow.owed, 0);
  flow.promised += owed;
  verbs_.Send(peer->lane(), wire::P2pVerb::kCredit, owed, 0, {});
}

UnexpectedMessage* Unexpected::Add(PeerLink& peer, const wire::P2pMessage& message, uint64_t bytes, uint64_t cost) {
  UnexpectedMessage* unexpected = matcher_.New();
  unexpected->peer = &peer;
  unexpected->tag = message.numbers[0];
  unexpected->send = message.id;
  unexpected->bytes = bytes;
  unexpected->cost = cost;
  unexpected->offer = message.verb == wire::P2pVerb::kOffer;
  unexpected->confirm = unexpected->offer || (message.aux & wire::kP2pConfirmEager) != 0;
  unexpected->head.assign(reinterpret_cast<const char*>(message.head.data), message.head.size);
  peer.flow.Held(unexpected->offer, cost);
  matcher_.Add(unexpected);
  return unexpected;
}

void Unexpected::Forget(UnexpectedMessage* unexpected) {
  PeerLink* peer = unexpected->peer;
  FUSEWIRE_CHECK(peer != nullptr);
  FUSEWIRE_DCHECK(unexpected->op == nullptr || unexpected->op->run.arriving == unexpected);
  if (unexpected->op != nullptr) std::exchange(unexpected->op, nullptr)->run.arriving = nullptr;
  uint64_t cost = unexpected->cost;
  peer->flow.Freed(unexpected->offer, cost);
  matcher_.Free(unexpected);
  if (cost > 0) Owe(peer, cost);
}

void Unexpected::ForgetOffersOf(const PeerLink* peer) {
  for (UnexpectedMessage* unexpected : matcher_.AllOf(peer)) {
    if (unexpected->offer) Forget(unexpected);
  }
}

void Unexpected::ForgetAllOf(const PeerLink* peer) {
  for (UnexpectedMessage* unexpected : matcher_.AllOf(peer)) Forget(unexpected);
}

}  // namespace fusewire::p2p
