// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What an endpoint knows of one peer: its pipes, which of them is in use, how much may be sent over it.
// Home: the endpoint's. Owns: the dialled lanes. Fails: tells its handler, with why.
//
// Two that dial each other have two pipes. The one whose name comes first decides: it says "use" on one, and closes
// the others. Nothing but "open" is said on a pipe before that.
#ifndef FUSEWIRE_P2P_PEER_LINK_H_
#define FUSEWIRE_P2P_PEER_LINK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fusewire/base/list.h"
#include "fusewire/p2p/flow.h"
#include "fusewire/p2p/lane.h"
#include "fusewire/p2p/limits.h"
#include "fusewire/p2p/op.h"
#include "fusewire/p2p/peer.h"
#include "fusewire/p2p/verbs.h"
#include "fusewire/transport/transport.h"

namespace fusewire {
namespace p2p {

class PeerLink;

// What an endpoint is, and says of itself to each peer.
struct Self {
  const std::string name;
  const uint64_t incarnation;
  const Limits limits;
  const uint64_t eager_bytes_max;
};

// Who hears of peers. At home; none of it is about a single message.
class PeerHandler {
 public:
  virtual std::unique_ptr<Lane> Dial(PeerLink& peer, const transport::Address& address) = 0;
  // A pipe is in use. `restarted`: to another incarnation than the last one.
  virtual void OnPeerUp(PeerLink* peer, bool restarted) = 0;
  virtual void OnPeerDown(PeerLink* peer, const Status& why) = 0;
  virtual void OnDialFailed(PeerLink* peer, const Status& why) = 0;
  // The rest of its body will not come.
  virtual void OnUnexpectedLost(UnexpectedMessage* unexpected) = 0;
  // Whether anything waits for it.
  virtual bool Needs(const PeerLink& peer) = 0;

 protected:
  ~PeerHandler() = default;
};

class PeerLink final : public Peer {
 public:
  PeerLink(const Self& self, Verbs& verbs, PeerHandler& handler, std::string name);
  ~PeerLink();

  // At home. From now on it is dialled there when it is wanted.
  void SetAddress(const transport::Address& address);
  // At home. There is something to do with it.
  void Want();
  bool CanDial() const { return dialed_ != nullptr; }
  // At home. The lane in use; its pipe, if that is open.
  Lane* lane() { return active_; }
  pipe::Pipe* pipe() { return active_ != nullptr ? active_->pipe() : nullptr; }
  // Closes its pipes, those that hold small messages back only if `at_once`. True: no pipe is left.
  bool Leave(bool at_once, const Status& why);
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
  List<Op> waiting;  // for the peer, or for those before them: the op table's

 private:
  bool Decides() const { return self_.name < name_; }
  void SendOpen(Lane* lane);
  void Use(Lane* lane, uint64_t count);
  void Down(const Status& why);

  const Self& self_;
  Verbs& verbs_;
  PeerHandler& handler_;
  std::unique_ptr<Lane> dialed_;
  std::string dialed_address_;
  std::vector<std::unique_ptr<Lane>> retired_;  // of older addresses
  std::vector<Lane*> open_;
  Lane* active_ = nullptr;
  uint64_t met_ = 0;   // the incarnation that the next two count for
  uint64_t used_ = 0;  // the last "use", said or heard
  uint64_t lost_ = 0;  // the last one whose pipe is gone
  std::string description_;
  Status last_failure_;
};

}  // namespace p2p
}  // namespace fusewire

#endif  // FUSEWIRE_P2P_PEER_LINK_H_
