// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/p2p/sends.h"

#include <string>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/p2p/flow.h"
#include "fusewire/wire/wire.h"

namespace fusewire::p2p {
namespace {

// A body may be sent twice: to a receive that ended meanwhile, and to the next.
constexpr uint32_t kInPipeMax = 2;

// Up to this size the body of an offer goes with it; only as long as it can begin at once, so that offers keep their
// order.
constexpr uint64_t kPushBytesMax = Pushes::kUnansweredBytesMax;
bool MayPush(const SendOp& op, uint64_t bytes, const pipe::Pipe& pipe) {
  const uint64_t around =
      wire::kHeaderBytes + (wire::kP2pNumbersMax + op.segments.size()) * sizeof(uint64_t) + op.head.size;
  return bytes > kInlineBytes && bytes <= kPushBytesMax && pipe.BeginsAtOnce(around + bytes);
}

Status Over(const char* field, uint64_t value, const char* limit_name, uint64_t limit) {
  return Status::Invalid(std::string(field) + ": " + std::to_string(value) + ", " + limit_name + " is " +
                         std::to_string(limit));
}

Status CheckSizes(const SendOp& op, uint64_t bytes, const wire::Limits& limits) {
  if (op.head.size > wire::kP2pHeadBytesMax) {
    return Over("bytes of the head", op.head.size, "the limit", wire::kP2pHeadBytesMax)
        .Next("move what is over it into the message");
  }
  if (bytes > limits.body_bytes_max) {
    return Over("bytes of the message", bytes, "body_bytes_max", limits.body_bytes_max)
        .Next("send it in several messages, or raise body_bytes_max on both sides");
  }
  if (op.segments.size() > limits.segments_max) {
    return Over("segments of the message", op.segments.size(), "segments_max", limits.segments_max)
        .Next("send it in several messages, or raise segments_max on both sides");
  }
  return Status::Ok();
}

}  // namespace

bool Sends::Dispatch(SendOp* op) {
  uint64_t bytes = TotalOf(op->segments);
  Status fits = CheckSizes(*op, bytes, wire_limits_);
  if (!fits.ok()) {
    table_.End(op, fits);
    return true;
  }
  Flow& flow = op->peer()->flow;
  uint64_t cost = CostOf(op->head.size, bytes);
  bool eager = flow.TakesEager(bytes, cost);
  if (!eager && !flow.TakesOffer()) return false;
  PostedReceives::Posted posted = flow.posted_receives.Take(op->tag);
  op->run.wants_result = op->confirm || !eager;
  if (eager) {
    SendEager(op, posted, cost);
  } else {
    SendOffer(op, posted, bytes);
  }
  return true;
}

void Sends::SendEager(SendOp* op, const PostedReceives::Posted& posted, uint64_t cost) {
  PeerLink* peer = op->peer();
  if (posted.receive == 0) peer->flow.posted_receives.OnUnaddressed(op->tag, 0);
  peer->flow.SpendCredit(cost);
  uint32_t aux = static_cast<uint32_t>(op->head.size) | (op->confirm ? wire::kP2pConfirmEager : 0);
  if (!table_.Send(op, peer->lane(),
                   verbs_.Payload(wire::P2pVerb::kEager, op->id() | wire::kP2pMine, aux, {op->tag, posted.receive},
                                  op->head, op->segments, true))) {
    return;
  }
  if (op->run.in_pipe > 0) return;
  table_.Sent(op);
  if (!op->confirm) table_.End(op, Status::Ok());
}

void Sends::SendOffer(SendOp* op, const PostedReceives::Posted& posted, uint64_t bytes) {
  PeerLink* peer = op->peer();
  uint64_t call = op->id() | wire::kP2pMine;
  auto head_bytes = static_cast<uint32_t>(op->head.size);
  table_.Offered(op);
  const bool awaited = posted.receive != 0 && bytes <= posted.bytes;
  const bool pushes = MayPush(*op, bytes, *peer->pipe()) && (awaited || peer->flow.pushes.Worth(bytes));
  if (posted.receive == 0) peer->flow.posted_receives.OnUnaddressed(op->tag, pushes ? 0 : op->id());
  if (pushes) {
    if (!table_.Send(op, peer->lane(),
                     verbs_.Payload(wire::P2pVerb::kOffer, call, head_bytes, {op->tag, posted.receive, bytes}, op->head,
                                    op->segments, true))) {
      return;
    }
    FUSEWIRE_DCHECK(op->run.pushed == 0);
    op->run.pushed = bytes;
    peer->flow.pushes.Pushed(bytes);
    return;
  }
  verbs_.Send(peer->lane(), wire::P2pVerb::kOffer, call, head_bytes, {op->tag, posted.receive, bytes}, op->head);
  if (awaited) SendData(op, posted.receive);
}

void Sends::SendData(SendOp* op, uint64_t receive) {
  FUSEWIRE_DCHECK(op->run.offered);
  Lane* lane = op->peer()->lane();
  if (lane->pipe() == nullptr) return;  // the pipe has been closed, and will report it
  if (!table_.Send(op, lane,
                   verbs_.Payload(wire::P2pVerb::kData, receive, 0, {op->id()}, ConstBytes(), op->segments, false))) {
    return;
  }
  if (op->run.in_pipe == 0) table_.Sent(op);
}

Status Sends::OnRequest(PeerLink& peer, const wire::P2pMessage& message) {
  auto* op = static_cast<SendOp*>(table_.FindOf(message.id, OpKind::kSend, peer));
  if (op == nullptr || !op->run.offered) return Status::Ok();  // it was given up; the withdrawal is on its way
  if (op->run.in_pipe >= kInPipeMax)
    return Status::Corrupt("request: of send " + std::to_string(message.id) + " for the third time");
  const uint64_t receive = message.numbers[0];
  if (receive == 0 || (receive & wire::kP2pMine) != 0)
    return Status::Corrupt("request: receive " + std::to_string(receive) + " names nothing");
  const bool pushed = op->run.pushed > 0;
  if (pushed) peer.flow.pushes.Ended(std::exchange(op->run.pushed, 0));
  if (pushed || (message.aux & wire::kP2pWaited) == 0) {
    peer.flow.pushes.Late(pushed);
  } else {
    peer.flow.pushes.Waited(false);
  }
  if (std::exchange(op->run.remote_id, 0) != receive) SendData(op, receive);  // else its notice was here first
  return Status::Ok();
}

Status Sends::OnPosted(PeerLink& peer, const wire::P2pMessage& message) {
  PostedReceives::Posted posted{message.numbers[0], message.id, message.numbers[1]};
  uint64_t crossed = 0;
  if (!peer.flow.posted_receives.Add(posted, message.numbers[2], &crossed)) {
    return Status::Corrupt("posted: seen " + std::to_string(message.numbers[2]) + " messages, more than the " +
                           std::to_string(peer.flow.posted_receives.unaddressed()) + " that were sent");
  }
  if (crossed != 0) MeetCrossed(peer, posted, crossed);
  return Status::Ok();
}

// The peer will request this body for that receive, once it has the offer: it need not wait for the request. If the
// peer does otherwise, as the receive has ended meanwhile, it drops what comes, and its request names another one.
void Sends::MeetCrossed(PeerLink& peer, const PostedReceives::Posted& posted, uint64_t offer) {
  auto* op = static_cast<SendOp*>(table_.FindOf(offer, OpKind::kSend, peer));
  if (op == nullptr || !op->run.offered || op->run.in_pipe > 0 || TotalOf(op->segments) > posted.bytes) return;
  op->run.remote_id = posted.receive;
  SendData(op, posted.receive);
}

Status Sends::OnCredit(PeerLink& peer, const wire::P2pMessage& message) {
  if (peer.flow.AddCredit(message.id)) return Status::Ok();
  return Status::Corrupt("credit: " + std::to_string(message.id) + " bytes on top of " +
                         std::to_string(peer.flow.credit) + ", limit " + std::to_string(kCreditMax));
}

}  // namespace fusewire::p2p
