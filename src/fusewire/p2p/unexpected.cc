// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/p2p/unexpected.h"

#include <string>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/p2p/flow.h"

namespace fusewire::p2p {

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
