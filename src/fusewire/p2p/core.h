// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The inside of an endpoint: hands each operation, each message and each event of a peer to the part that it is for. It
// does none of their work.
// Home: the endpoint's reactor. Owns: the peers, the op table, sends, receives and regions. Fails: a peer that
// violates the protocol loses its pipe.
//   core -> sends, receives, regions -> op_table -> peers -> verbs -> lane -> op.       Nothing calls back up, except
//   the few events of PeerHandler.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/base/unique_function.h"
#include "fusewire/p2p/lane.h"
#include "fusewire/p2p/limits.h"
#include "fusewire/p2p/op.h"
#include "fusewire/p2p/op_table.h"
#include "fusewire/p2p/peer_link.h"
#include "fusewire/p2p/receives.h"
#include "fusewire/p2p/regions.h"
#include "fusewire/p2p/sends.h"
#include "fusewire/p2p/verbs.h"
#include "fusewire/pipe/options.h"
#include "fusewire/reactor/completion.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/wire/wire.h"

namespace fusewire::p2p {

class Core final : private PeerHandler {
 public:
  using DialLane = UniqueFunction<std::unique_ptr<Lane>(Core& core, PeerLink& peer, const transport::Address& address)>;

  Core(const pipe::Options& options, reactor::Reactor& home, const Limits& limits, OnPeer on_peer, DialLane dial);
  ~Core();

  // Any thread.
  reactor::Reactor& home() { return home_; }
  const Self& self() const { return self_; }

  // ---- operations, at home ----
  void Begin(Op* op);
  void OnMail(Op* op);
  void OnDeadline(Op* op) { table_.OnDeadline(op); }
  void OnCancelWanted(uint64_t name) { table_.OnCancelWanted(name); }
  void HandleOffers(uint64_t tag_min, uint64_t tag_max, OnOffer on_offer);
  Regions& regions() { return regions_; }

  // ---- peers, at home ----
  Result<PeerLink*> PeerNamed(const std::string& name);
  // Ends all operations, and says goodbye to each peer once the small messages to it, whose operations have ended, no
  // longer wait for credit.
  void Close();
  // After Close: says goodbye at once.
  void LeaveAtOnce() { peers_.Leave(true); }
  // Of operations and pipes.
  reactor::Drain& drain() { return drain_; }

  // ---- from lanes ----
  Result<pipe::Landing> OnHeader(Lane& lane, PeerLink& peer, const wire::FrameHeader& header, ConstBytes meta);
  Status OnMessage(Lane& lane, PeerLink& peer, const wire::FrameHeader& header, ConstBytes meta);

 private:
  bool Dispatch(Op* op);
  void PumpWaiting(PeerLink* peer);
  Status OnVerb(Lane& lane, PeerLink& peer, const wire::FrameHeader& header, const wire::P2pMessage& message);
  Status OnResult(PeerLink& peer, const wire::P2pMessage& message);
  void Tell(PeerLink* peer, PeerEvent event, const Status& why);

  std::unique_ptr<Lane> Dial(PeerLink& peer, const transport::Address& address) override;
  void OnPeerUp(PeerLink* peer, bool restarted) override;
  void OnPeerDown(PeerLink* peer, const Status& why) override;
  void OnDialFailed(PeerLink* peer, const Status& why) override;
  void OnUnexpectedLost(UnexpectedMessage* unexpected) override { receives_.unexpected().Forget(unexpected); }
  bool Needs(const PeerLink& peer) override { return table_.Needs(peer); }

  reactor::Reactor& home_;
  const Self self_;
  OnPeer on_peer_;
  DialLane dial_;
  reactor::Drain drain_;
  Verbs verbs_;
  Peers peers_;
  OpTable table_;
  Sends sends_;
  Receives receives_;
  Regions regions_;
};

}  // namespace fusewire::p2p
