// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/p2p/core.h"

#include <algorithm>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/log.h"

namespace fusewire::p2p {
namespace {

// An unexpected eager message is copied when its receive comes.
constexpr uint64_t kEagerBytesMax = 64 * 1024;

// An eager message is express, so it must fit in any chunk that may be agreed on.
uint64_t EagerBytesMax(const Limits& limits, const pipe::Options& options) {
  uint64_t chunk = options.limits.chunk_bytes_max;
  uint64_t around = wire::kHeaderBytes + wire::kP2pHeadBytesMax + 1024;
  return std::min<uint64_t>({limits.eager_bytes_max, kEagerBytesMax, chunk > around ? chunk - around : 0});
}

// No frame can carry more credit.
Limits Bounded(Limits limits) {
  limits.unexpected_bytes_max = std::min(limits.unexpected_bytes_max, kCreditMax);
  return limits;
}

}  // namespace

Core::Core(const pipe::Options& options, reactor::Reactor& home, const Limits& limits, OnPeer on_peer, DialLane dial)
    : home_(home),
      self_{options.name, options.incarnation, Bounded(limits), EagerBytesMax(limits, options)},
      on_peer_(std::move(on_peer)),
      dial_(std::move(dial)),
      drain_("operations and connections of endpoint " + options.name),
      peers_(self_, verbs_, *this, drain_),
      table_(home, self_.limits, verbs_, drain_, [this](PeerLink* peer) { PumpWaiting(peer); }),
      sends_(options.limits, table_, verbs_),
      receives_(self_, options.limits, table_, verbs_),
      regions_(self_, options.limits, peers_, table_, verbs_) {}

Core::~Core() { peers_.Clear(); }

// ---- operations ----

void Core::Begin(Op* op) {
  FUSEWIRE_AT_HOME(home_);
  EndReports::Posting posting(table_.end_reports());
  if (!table_.Enter(op)) return;
  if (op->kind() == OpKind::kReceive) {
    receives_.Begin(static_cast<ReceiveOp*>(op));
  } else if (op->kind() == OpKind::kAwait) {
    regions_.Begin(static_cast<AwaitOp*>(op));
  } else if ((!op->peer()->waiting.empty() && op->kind() != OpKind::kAwaitPeer) || !Dispatch(op)) {
    table_.Wait(op);
  }
}

void Core::OnMail(Op* op) {
  if (op->run.state == OpRun::State::kEndMailed) {
    table_.end_reports().OnMail(op);
  } else {
    Begin(op);
  }
}

// False: it cannot be sent now. It may have ended when this returns.
bool Core::Dispatch(Op* op) {
  FUSEWIRE_CHECK(op->peer() != nullptr);
  if (op->peer()->pipe() == nullptr) return false;
  switch (op->kind()) {
    case OpKind::kSend: return sends_.Dispatch(static_cast<SendOp*>(op));
    case OpKind::kPut: return regions_.Dispatch(static_cast<PutOp*>(op));
    case OpKind::kGet: return regions_.Dispatch(static_cast<GetOp*>(op));
    default: table_.End(op, Status::Ok()); return true;
  }
}

void Core::PumpWaiting(PeerLink* peer) {
  while (Op* op = peer->waiting.front()) {
    uint64_t name = op->id();
    if (!Dispatch(op)) return;
    table_.LeaveQueue(name);
  }
}

void Core::HandleOffers(uint64_t tag_min, uint64_t tag_max, OnOffer on_offer) {
  FUSEWIRE_AT_HOME(home_);
  receives_.HandleOffers(tag_min, tag_max, std::move(on_offer));
}

// ---- incoming ----

Result<pipe::Landing> Core::OnHeader(Lane& lane, PeerLink& peer, const wire::FrameHeader& header, ConstBytes meta) {
  FUSEWIRE_AT_HOME(home_);
  if (header.body_bytes == 0) return pipe::Landing::View();
  Result<wire::P2pMessage> decoded = wire::DecodeP2p(header, meta);
  if (!decoded.ok()) return decoded.status();
  const wire::P2pMessage& message = decoded.value();
  if (peer.lane() != &lane) return Status::Corrupt(std::string(wire::P2pVerbName(message.verb)) + ": before use");
  if (lane.Find(header.call) != nullptr) {
    return Status::Corrupt(std::string(wire::P2pVerbName(message.verb)) + ": call " + std::to_string(header.call) +
                           " has a body on its way already");
  }
  switch (message.verb) {
    case wire::P2pVerb::kEager: return receives_.OnEagerHeader(lane, peer, header, message);
    case wire::P2pVerb::kOffer: return receives_.OnPushedHeader(lane, peer, header, message);
    case wire::P2pVerb::kData: return receives_.OnDataHeader(lane, peer, header, message);
    case wire::P2pVerb::kPut: return regions_.OnPutHeader(lane, header, message);
    default: return regions_.OnGotHeader(lane, peer, header, message);
  }
}

Status Core::OnMessage(Lane& lane, PeerLink& peer, const wire::FrameHeader& header, ConstBytes meta) {
  FUSEWIRE_AT_HOME(home_);
  Result<wire::P2pMessage> decoded = wire::DecodeP2p(header, meta);
  if (!decoded.ok()) return decoded.status();
  // The pipe's window is free at once: unexpected messages have bounds of their own.
  if (pipe::Pipe* pipe = lane.pipe()) pipe->Consume(header);
  const wire::P2pMessage& message = decoded.value();
  if (message.verb == wire::P2pVerb::kOpen) return peer.OnOpen(&lane, message);
  if (message.verb == wire::P2pVerb::kUse) return peer.OnUse(&lane, message.id);
  if (peer.lane() != &lane) {
    if (lane.pipe() == nullptr) return Status::Ok();
    return Status::Corrupt(std::string(wire::P2pVerbName(message.verb)) + ": before use");
  }
  return OnVerb(lane, peer, header, message);
}

Status Core::OnVerb(Lane& lane, PeerLink& peer, const wire::FrameHeader& header, const wire::P2pMessage& message) {
  switch (message.verb) {
    case wire::P2pVerb::kEager: return receives_.OnEager(lane, peer, header, message);
    case wire::P2pVerb::kOffer: return receives_.OnOffered(lane, peer, header, message);
    case wire::P2pVerb::kRequest: return sends_.OnRequest(peer, message);
    case wire::P2pVerb::kData: return receives_.OnData(lane, peer, header, message);
    case wire::P2pVerb::kResult: return OnResult(peer, message);
    case wire::P2pVerb::kWithdraw: return receives_.OnWithdraw(peer, message);
    case wire::P2pVerb::kPosted: return sends_.OnPosted(peer, message);
    case wire::P2pVerb::kCredit: return Sends::OnCredit(peer, message);
    case wire::P2pVerb::kPut: return regions_.OnPut(lane, peer, header, message);
    case wire::P2pVerb::kGet: return regions_.OnGet(lane, peer, message);
    default: return regions_.OnGot(lane, peer, header, message);
  }
}

// Of a send or a put.
Status Core::OnResult(PeerLink& peer, const wire::P2pMessage& message) {
  Status status;
  if (message.aux != 0) FUSEWIRE_TRY(wire::DecodeStatus(static_cast<Code>(message.aux), message.payload, &status));
  Op* op = table_.FindOf(message.id, OpKind::kSend, peer);
  if (op == nullptr) op = table_.FindOf(message.id, OpKind::kPut, peer);
  if (op != nullptr && OpTable::AwaitsResult(*op)) return table_.OnResult(op, status);
  // The operation has ended, or wants no result.
  if (!status.ok()) Tell(&peer, PeerEvent::kRefused, status.Peer(peer.description()));
  return Status::Ok();
}

// ---- peers ----

Result<PeerLink*> Core::PeerNamed(const std::string& name) {
  FUSEWIRE_AT_HOME(home_);
  return peers_.Named(name);
}

void Core::Close() {
  FUSEWIRE_AT_HOME(home_);
  peers_.Close();
  table_.Close();
  peers_.Leave(false);
}

void Core::Tell(PeerLink* peer, PeerEvent event, const Status& why) {
  if (on_peer_) on_peer_(*peer, event, why);
}

std::unique_ptr<Lane> Core::Dial(PeerLink& peer, const transport::Address& address) {
  return dial_(*this, peer, address);
}

void Core::OnPeerUp(PeerLink* peer, bool restarted) {
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_DCHECK(peer->lane() != nullptr);
  if (restarted) {
    FUSEWIRE_LOG(kInfo, "peer %s came back as another incarnation", peer->description().c_str());
    // Operations with the old incarnation must not reach the new one, nor the other way round.
    table_.EndAllOf(peer, Status::Unavailable("the peer has restarted since it was posted").Next("post it again"),
                    true);
    receives_.unexpected().ForgetAllOf(peer);
  }
  Tell(peer, restarted ? PeerEvent::kRestarted : PeerEvent::kUp, Status::Ok());
  receives_.SendAllPosted(peer);
  PumpWaiting(peer);
}

void Core::OnPeerDown(PeerLink* peer, const Status& why) {
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_DCHECK(peer->lane() == nullptr);
  // Offers are gone with their sender; complete messages stay.
  receives_.unexpected().ForgetOffersOf(peer);
  table_.EndAllOf(peer, why, false);
  Tell(peer, PeerEvent::kDown, why);
}

void Core::OnDialFailed(PeerLink* peer, const Status& why) {
  // Waiting does not help if the peer refuses us, or if we have no descriptor left.
  bool hopeless = why.code() == Code::kRefused || why.code() == Code::kOverloaded || self_.limits.patience_ns <= 0;
  if (hopeless) table_.EndAllOf(peer, why, true);
}

}  // namespace fusewire::p2p
