// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Outgoing messages: eager, offered, or offered with their body. docs/p2p.md draws the exchanges.
// Home: the endpoint's. Fails: each send on its own; a peer that violates the protocol gets kCorrupt, and its
// pipe is closed.
#pragma once

#include <cstdint>

#include "fusewire/base/status.h"
#include "fusewire/p2p/op.h"
#include "fusewire/p2p/op_table.h"
#include "fusewire/p2p/peer_link.h"
#include "fusewire/p2p/posted_receives.h"
#include "fusewire/p2p/verbs.h"
#include "fusewire/wire/p2p.h"

namespace fusewire::p2p {

class Sends {
 public:
  Sends(const wire::Limits& wire_limits, OpTable& table, Verbs& verbs)
      : wire_limits_(wire_limits), table_(table), verbs_(verbs) {}

  // The peer's pipe is open. False: the peer takes no more now. The send may have ended when this returns.
  bool Dispatch(SendOp* op);
  // From receivers.
  Status OnRequest(PeerLink& peer, const wire::P2pMessage& message);
  Status OnPosted(PeerLink& peer, const wire::P2pMessage& message);
  static Status OnCredit(PeerLink& peer, const wire::P2pMessage& message);

 private:
  void SendEager(SendOp* op, const PostedReceives::Posted& posted, uint64_t cost);
  void SendOffer(SendOp* op, const PostedReceives::Posted& posted, uint64_t bytes);
  void SendData(SendOp* op, uint64_t receive);
  void MeetCrossed(PeerLink& peer, const PostedReceives::Posted& posted, uint64_t offer);

  const wire::Limits& wire_limits_;
  OpTable& table_;
  Verbs& verbs_;
};

}  // namespace fusewire::p2p
