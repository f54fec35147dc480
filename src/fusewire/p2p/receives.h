// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Incoming messages: each finds the receive in which it lands, or waits for one. docs/p2p.md draws the exchanges.
// Home: the endpoint's. Owns: the matcher with the unexpected messages; the handlers of offers. Fails: each receive on
// its own; a peer that violates the protocol gets kCorrupt, and its pipe is closed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/p2p/lane.h"
#include "fusewire/p2p/matcher.h"
#include "fusewire/p2p/op.h"
#include "fusewire/p2p/op_table.h"
#include "fusewire/p2p/peer_link.h"
#include "fusewire/p2p/verbs.h"
#include "fusewire/pipe/pipe.h"
#include "fusewire/wire/p2p.h"
#include "fusewire/wire/wire.h"

namespace fusewire::p2p {

// Unexpected messages, which wait until a receive asks for them, and the credit that they cost their senders. The
// matcher owns the messages. Spend fails when a peer spends more credit than it has.
class Unexpected {
 public:
  Unexpected(const Self& self, Matcher& matcher, Verbs& verbs) : self_(self), matcher_(matcher), verbs_(verbs) {}

  // A small message comes, and spends its sender's credit.
  Status Spend(PeerLink& peer, const wire::P2pMessage& message, uint64_t bytes, uint64_t* cost);
  // Gives credit back. It is sent to the peer once it is worth a frame.
  void Owe(PeerLink* peer, uint64_t cost);
  // Adds a message behind the others.
  UnexpectedMessage* Add(PeerLink& peer, const wire::P2pMessage& message, uint64_t bytes, uint64_t cost);
  void Forget(UnexpectedMessage* unexpected);
  // Of a peer that is gone: the offers, which waited at their sender; or all.
  void ForgetOffersOf(const PeerLink* peer);
  void ForgetAllOf(const PeerLink* peer);

 private:
  const Self& self_;
  Matcher& matcher_;
  Verbs& verbs_;
};

class Receives {
 public:
  Receives(const Self& self, const wire::Limits& wire_limits, OpTable& table, Verbs& verbs)
      : self_(self), wire_limits_(wire_limits), table_(table), verbs_(verbs), unexpected_(self, matcher_, verbs) {}

  void Begin(ReceiveOp* op);
  void HandleOffers(uint64_t tag_min, uint64_t tag_max, OnOffer on_offer);
  // A pipe to the peer is in use: notifies it of the receives that wait for it.
  void SendAllPosted(PeerLink* peer);
  Unexpected& unexpected() { return unexpected_; }

  // From senders. OnXHeader is for a message with a body, which has landed when OnX is called.
  Result<pipe::Landing> OnEagerHeader(Lane& lane, PeerLink& peer, const wire::FrameHeader& header,
                                      const wire::P2pMessage& message);
  Result<pipe::Landing> OnPushedHeader(Lane& lane, PeerLink& peer, const wire::FrameHeader& header,
                                       const wire::P2pMessage& message);
  Result<pipe::Landing> OnDataHeader(Lane& lane, PeerLink& peer, const wire::FrameHeader& header,
                                     const wire::P2pMessage& message);
  Status OnEager(Lane& lane, PeerLink& peer, const wire::FrameHeader& header, const wire::P2pMessage& message);
  Status OnOffered(Lane& lane, PeerLink& peer, const wire::FrameHeader& header, const wire::P2pMessage& message);
  Status OnData(Lane& lane, PeerLink& peer, const wire::FrameHeader& header, const wire::P2pMessage& message);
  Status OnWithdraw(PeerLink& peer, const wire::P2pMessage& message);

 private:
  struct OfferRange {
    uint64_t tag_min, tag_max;
    OnOffer on_offer;
  };

  // ---- our side ----
  void MatchOrPost(ReceiveOp* op);
  void Post(ReceiveOp* op);
  void SendPosted(ReceiveOp* op);
  static bool Claim(ReceiveOp* op, PeerLink* peer, uint64_t bytes, ConstBytes head);
  void TakeUnexpected(ReceiveOp* op, UnexpectedMessage* unexpected);
  void Request(ReceiveOp* op, PeerLink* peer, uint64_t send, uint32_t aux);
  void End(ReceiveOp* op, PeerLink* peer, uint64_t send, bool confirm, const Status& status);
  // ---- incoming ----
  ReceiveOp* AskHandlers(const Offer& offer, Status* refusal);
  ReceiveOp* FindReceiveFor(PeerLink& peer, const wire::P2pMessage& message, uint64_t bytes, Status* refusal);
  Status MeetOffer(PeerLink& peer, const wire::P2pMessage& message, ReceiveOp** receive, Status* refusal);
  Status OnEagerLanded(const Arriving& landed, PeerLink& peer, const wire::P2pMessage& message, uint64_t cost);
  Status OnUnpushed(PeerLink& peer, const wire::P2pMessage& message);
  Status OnLanded(Lane& lane, PeerLink& peer, uint64_t call, uint64_t send);
  ReceiveOp* FindRequested(const PeerLink& peer, uint64_t receive, uint64_t send);
  void LoseSender(ReceiveOp* op);

  const Self& self_;
  const wire::Limits& wire_limits_;
  OpTable& table_;
  Verbs& verbs_;
  Matcher matcher_;
  Unexpected unexpected_;
  std::vector<std::unique_ptr<OfferRange>> offer_ranges_;
};

}  // namespace fusewire::p2p
