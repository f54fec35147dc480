// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Control messages between members, and the detection of lost members. Each member always has a receive posted for each
// other one: it ends when that peer is lost, even if no operation involves the peer.
// Home: the endpoint's. Owns: the receives and sends of control messages, and the waits for peers.
// Fails: reports each lost member once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/base/status.h"
#include "fusewire/collective/group/control_message.h"
#include "fusewire/collective/group/seats.h"
#include "fusewire/p2p/endpoint.h"
#include "fusewire/reactor/completion.h"
#include "fusewire/reactor/reactor.h"

namespace fusewire::collective {

class MemberHandler {
 public:
  virtual void OnControl(int seat, const ControlMessage& message) = 0;
  // The member's peer is up, after AwaitPeer.
  virtual void OnReached(int seat) = 0;
  // Once for each seat; Seats has the reason.
  virtual void OnLost(int seat) = 0;
  // Whether an operation still waits for OnReached.
  virtual bool WaitsToReach(int seat) const = 0;

 protected:
  ~MemberHandler() = default;
};

class Members {
 public:
  // `under_way` counts the operations that it has posted and that have not ended.
  Members(p2p::Endpoint& endpoint, uint64_t control_tag, Seats* seats, MemberHandler* handler,
          reactor::Drain* under_way);

  // Dials the members that have an address.
  Status Connect(const std::vector<GroupMember>& members);
  void Listen();
  // Stops receiving and sending; operations under way end soon.
  void Close();

  // OnReached or OnLost follows. The wait has no limit but that of the operation: members may connect hours later.
  void AwaitPeer(int seat);
  // Marks a member as lost.
  void Lose(int seat, const Status& why);

  void Send(int seat, const ControlMessage& message) { SendCounted(seat, message, false); }
  void SendToAll(const ControlMessage& message);
  // Sends an answer, unless a few are under way: a member may ask faster than it reads the answers.
  void Answer(int seat, const ControlMessage& message);

 private:
  // The operations that listen to a seat.
  struct Listener {
    std::unique_ptr<p2p::ReceiveOp> receive;
    std::vector<uint8_t> heard;
    std::unique_ptr<p2p::AwaitPeerOp> awaits;
    std::unique_ptr<reactor::Timer> again;
    bool awaiting = false;
  };
  struct SentControl {
    std::unique_ptr<p2p::SendOp> op;
    std::string text;
    int seat = -1;
    bool answers = false;
    bool ended = false;
  };
  void ListenTo(int seat);
  void OnHeard(int seat);
  void OnAwaited(int seat);
  void SendCounted(int seat, const ControlMessage& message, bool answers);
  Listener& ListenerOf(int seat) {
    FUSEWIRE_DCHECK(static_cast<size_t>(seat) < listeners_.size());
    return listeners_[static_cast<size_t>(seat)];
  }

  p2p::Endpoint& endpoint_;
  reactor::Reactor& home_;
  const uint64_t control_tag_;
  Seats* const seats_;
  MemberHandler* const handler_;
  reactor::Drain* const under_way_;
  std::vector<Listener> listeners_;  // by seat
  std::list<SentControl> sent_;
  bool closed_ = false;
};

}  // namespace fusewire::collective
