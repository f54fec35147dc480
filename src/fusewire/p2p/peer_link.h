// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One peer as its endpoint sees it: its lanes, which of them is in use, and how much may be sent over it.
// Home: the endpoint's. Owns: the dialled lanes. Fails: reports it to its handler, with the reason.
// Two endpoints that dial each other have two pipes. The one whose name sorts first decides: it sends "use" on one pipe
// and closes the others. Before that only "open" is sent on a pipe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fusewire/base/list.h"
#include "fusewire/base/status.h"
#include "fusewire/p2p/flow.h"
#include "fusewire/p2p/lane.h"
#include "fusewire/p2p/limits.h"
#include "fusewire/p2p/op.h"
#include "fusewire/p2p/peer.h"
#include "fusewire/p2p/verbs.h"
#include "fusewire/reactor/completion.h"
#include "fusewire/transport/transport.h"

namespace fusewire::p2p {

class PeerLink;

// An endpoint's description of itself for each peer.
struct Self {
  const std::string name;
  const uint64_t incarnation;
  const Limits limits;
  const uint64_t eager_bytes_max;
};

// Receives the events of peers, at home; none of them is about a single message.
class PeerHandler {
 public:
  virtual std::unique_ptr<Lane> Dial(PeerLink& peer, const transport::Address& address) = 0;
  // A pipe is in use. `restarted`: to another incarnation than the last one.
  virtual void OnPeerUp(PeerLink* peer, bool restarted) = 0;
  virtual void OnPeerDown(PeerLink* peer, const Status& why) = 0;
  virtual void OnDialFailed(PeerLink* peer, const Status& why) = 0;
  // The rest of its body will not arrive.
  virtual void OnUnexpectedLost(UnexpectedMessage* unexpected) = 0;
  // Whether any operation waits for it.
  virtual bool Needs(const PeerLink& peer) = 0;

 protected:
  ~PeerHandler() = default;
};

class PeerLink final : public Peer {
 public:
  // `drain` counts its pipes.
  PeerLink(const Self& self, Verbs& verbs, PeerHandler& handler, reactor::Drain& drain, std::string name);
  ~PeerLink();

  // At home. It is dialled at this address from now on.
  void SetAddress(const transport::Address& address);
  // At home. An operation needs it: dials, if it has an address and no pipe.
  void Want();
  bool CanDial() const { return dialed_ != nullptr; }
  // At home. The lane in use, or null; its pipe, if that is open.
  Lane* lane() { return active_; }
  pipe::Pipe* pipe() { return active_ != nullptr ? active_->pipe() : nullptr; }
  // At home. Closes its pipes; `at_once`: also those that still hold small messages back.
  void Leave(bool at_once, const Status& why);
  void AbandonRegion(uint64_t region, const Status& why);
  // For errors and logs: "b (10.0.0.7:5555)".
  const std::string& description() const { return description_; }
  const Status& last_failure() const { return last_failure_; }

  // From lanes.
  void OnLaneOpen(Lane* lane);
  void OnLaneClosed(Lane* lane, const Status& why);
  void OnDialFailed(const Status& why);
  Status OnOpen(Lane* lane, const wire::P2pMessage& message);
  Status OnUse(Lane* lane, uint64_t count);

  Flow flow;
  List<Op> waiting;  // operations that are queued for the peer; the op table's

 private:
  bool Decides() const { return self_.name < name_; }
  void SendOpen(Lane* lane);
  void Use(Lane* lane, uint64_t count);
  void Down(const Status& why);

  const Self& self_;
  Verbs& verbs_;
  PeerHandler& handler_;
  reactor::Drain& drain_;
  std::unique_ptr<Lane> dialed_;
  std::vector<std::unique_ptr<Lane>> retired_;  // to older addresses
  std::vector<Lane*> open_;
  Lane* active_ = nullptr;
  uint64_t met_ = 0;   // the incarnation for which the next two count
  uint64_t used_ = 0;  // count of the last "use", sent or received
  uint64_t lost_ = 0;  // count of the last "use" whose pipe is gone
  std::string description_;
  Status last_failure_;
};

// The peers of an endpoint, by name. They live as long as it does. Named says why a name is refused.
class Peers {
 public:
  Peers(const Self& self, Verbs& verbs, PeerHandler& handler, reactor::Drain& drain)
      : self_(self), verbs_(verbs), handler_(handler), drain_(drain) {}

  // The peer of this name; a new one, if there is none yet.
  Result<PeerLink*> Named(const std::string& name);
  // From now on Named fails.
  void Close() { closed_ = true; }
  // Closes the pipes of all peers; see PeerLink::Leave.
  void Leave(bool at_once);
  // Destroys all peers. Their pipes give back the memory that ending operations still wait for.
  void Clear();
  // Drops what is landing in this region.
  void AbandonRegion(uint64_t region, const Status& why);

 private:
  const Self& self_;
  Verbs& verbs_;
  PeerHandler& handler_;
  reactor::Drain& drain_;
  std::map<std::string, std::unique_ptr<PeerLink>> peers_;
  bool closed_ = false;
};

}  // namespace fusewire::p2p
