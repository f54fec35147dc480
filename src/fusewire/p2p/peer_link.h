// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What an endpoint knows of one peer: its pipes, which of them is in use, what it may be sent.
// Home: the endpoint's. Owns: the dialled lanes. Fails: OnDown of the core, with why.
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
#include "fusewire/p2p/aheads.h"
#include "fusewire/p2p/lane.h"
#include "fusewire/p2p/op.h"
#include "fusewire/p2p/peer.h"
#include "fusewire/p2p/pushes.h"
#include "fusewire/transport/transport.h"

namespace fusewire {
namespace p2p {

class PeerLink final : public Peer {
 public:
  PeerLink(Core& core, std::string name);
  ~PeerLink();

  // At home. From now on it is dialled there when it is wanted.
  void SetAddress(const transport::Address& address);
  // At home. There is something to do with it.
  void Want();
  bool CanDial() const { return dialed_ != nullptr; }
  // At home. The pipe in use, if it is open.
  Lane* lane() { return active_; }
  pipe::Pipe* pipe() { return active_ != nullptr ? active_->pipe() : nullptr; }
  // Closes its pipes, those that hold small messages back only if `at_once`. True: no pipe is left.
  bool Leave(bool at_once, const Status& why);
  // For words: "b (10.0.0.7:5555)".
  std::string Words() const;
  const Status& last_failure() const { return last_failure_; }
  // Every lane that there is.
  std::vector<Lane*> Lanes();

  // From lanes.
  void OnLaneOpen(Lane* lane);
  void OnLaneClosed(Lane* lane, const Status& why);
  void OnDialFailed(const Status& why);
  Status OnOpenSaid(Lane* lane, const wire::P2pMessage& message);
  Status OnUseSaid(Lane* lane, uint64_t count);

  // ---- kept by the core, of the pipe in use ----
  List<Op> waiting;              // for the peer, or for those before them
  uint64_t eager_bytes_max = 0;  // what it takes at once
  uint64_t credit = 0;           // of its memory for small messages
  uint64_t offers_max = 0;
  uint64_t offers_out = 0;  // that it has not answered yet
  uint64_t promised = 0;    // what it may still send of ours
  uint64_t owed = 0;        // what it gets back with the next credit
  uint64_t offers_held = 0;
  uint64_t kept_bytes = 0;      // of it, across pipes
  uint64_t unaddressed_in = 0;  // messages that named no receive
  Aheads aheads;
  Pushes pushes;

 private:
  bool Decides() const;
  void SayOpen(Lane* lane);
  void Use(Lane* lane, uint64_t count);
  void Down(const Status& why);

  Core& core_;
  std::unique_ptr<DialedLane> dialed_;
  std::vector<std::unique_ptr<DialedLane>> retired_;  // of older addresses
  std::vector<Lane*> open_;
  Lane* active_ = nullptr;
  uint64_t met_ = 0;   // the incarnation that the next two count for
  uint64_t used_ = 0;  // the last "use", said or heard
  uint64_t lost_ = 0;  // the last one whose pipe is gone
  std::string words_;
  Status last_failure_;
};

}  // namespace p2p
}  // namespace fusewire

#endif  // FUSEWIRE_P2P_PEER_LINK_H_
