// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Unexpected messages, which wait until a receive asks for them, and the credit that they cost their senders.
// Home: the endpoint's. Owns: nothing; the matcher owns the messages. Fails: Spend, with kCorrupt, when a peer spends
// more credit than it has.
#pragma once

#include <cstdint>

#include "fusewire/base/status.h"
#include "fusewire/p2p/matcher.h"
#include "fusewire/p2p/peer_link.h"
#include "fusewire/p2p/verbs.h"
#include "fusewire/wire/p2p.h"

namespace fusewire::p2p {

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

}  // namespace fusewire::p2p
