// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Messages between members besides those of operations, and which members are there. Each member listens to each other
// one: a receive that is always posted ends when its peer goes, whether or not an operation has to do with it.
// Home: the endpoint's. Owns: the receives of control messages, those that it sends, and waits for peers.
// Fails: reports a member that is lost, once.
#ifndef FUSEWIRE_COLLECTIVE_GROUP_MEMBERS_H_
#define FUSEWIRE_COLLECTIVE_GROUP_MEMBERS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "fusewire/base/status.h"
#include "fusewire/collective/group/control_message.h"
#include "fusewire/collective/group/seats.h"
#include "fusewire/p2p/endpoint.h"
#include "fusewire/reactor/drain.h"
#include "fusewire/reactor/reactor.h"

namespace fusewire {
namespace collective {

class MemberHandler {
 public:
  virtual void OnControl(int seat, const ControlMessage& message) = 0;
  // It is up, after AwaitPeer.
  virtual void OnReached(int seat) = 0;
  // Seats says why. Once for each.
  virtual void OnLost(int seat) = 0;
  // Whether anything still waits for OnReached.
  virtual bool WaitsToReach(int seat) const = 0;

 protected:
  ~MemberHandler() = default;
};

class Members {
 public:
  // `under_way` counts what it has posted and has not ended.
  Members(p2p::Endpoint& endpoint, uint64_t control_tag, Seats* seats, MemberHandler* handler,
          reactor::Drain* under_way);

  // Dials those that have an address.
  Status Connect(const std::vector<GroupMember>& members);
  void Listen();
  // Nothing is heard or sent any more; what is under way ends soon.
  void Close();

  // OnReached or OnLost follows. A send waits for a peer as long as its operation does: members may come hours later.
  void AwaitPeer(int seat);
  // It has been seen to be gone.
  void Lose(int seat, const Status& why);

  void Send(int seat, const ControlMessage& message) { SendCounted(seat, message, false); }
  void SendToAll(const ControlMessage& message);
  // To a member that may ask faster than it takes answers: no more than a few are under way.
  void Answer(int seat, const ControlMessage& message);

 private:
  // Of a seat.
  struct Ear {
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
  Ear& EarOf(int seat) { return ears_[static_cast<size_t>(seat)]; }

  p2p::Endpoint& endpoint_;
  reactor::Reactor& home_;
  const uint64_t control_tag_;
  Seats* const seats_;
  MemberHandler* const handler_;
  reactor::Drain* const under_way_;
  std::vector<Ear> ears_;  // by seat
  std::list<SentControl> sent_;
  bool closed_ = false;
};

}  // namespace collective
}  // namespace fusewire

#endif  // FUSEWIRE_COLLECTIVE_GROUP_MEMBERS_H_
