// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Every operation that is under way: begun, made to wait, given up, ended once. Nobody else says what state one is in.
// Home: the endpoint's. Owns: their names, not the operations. Fails: each operation on its own.
#ifndef FUSEWIRE_P2P_OP_TABLE_H_
#define FUSEWIRE_P2P_OP_TABLE_H_

#include <cstdint>
#include <vector>

#include "fusewire/base/slots.h"
#include "fusewire/base/status.h"
#include "fusewire/base/unique_function.h"
#include "fusewire/p2p/ends.h"
#include "fusewire/p2p/lane.h"
#include "fusewire/p2p/limits.h"
#include "fusewire/p2p/op.h"
#include "fusewire/p2p/peer_link.h"
#include "fusewire/p2p/verbs.h"
#include "fusewire/pipe/pipe.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/wire/p2p.h"

namespace fusewire {
namespace p2p {

class OpTable {
 public:
  using State = OpRun::State;
  // A peer takes more offers than it did, and operations wait for that.
  using OnRoom = UniqueFunction<void(PeerLink* peer)>;

  OpTable(reactor::Reactor& home, const Limits& limits, Verbs& verbs, OnRoom on_room);
  ~OpTable();

  // ---- beginning ----
  // Any thread. It is about to be posted; `word`: see OpRun.
  static void Prepare(Op* op, uintptr_t word);
  // It has a name and a deadline from now on. False: it has ended.
  bool Enter(Op* op);
  // For its peer, or behind those that do.
  void Wait(Op* op);
  // It waits no more; nothing, if it has ended since.
  void LeaveQueue(uint64_t name);

  // ---- on its way ----
  void Posted(Op* op) { Move(op, State::kPosted); }
  void Requested(Op* op) { Move(op, State::kRequested); }
  void Sent(Op* op) { Move(op, State::kSent); }
  // It counts among its peer's offers until it ends.
  void Offered(SendOp* op);
  // Small: copied, and with the network as far as the caller can tell. Else the pipe holds the memory, and says when it
  // does not. False: `op` has ended, because it can not be sent.
  bool Send(Op* op, Lane* lane, pipe::Message message);
  // The body of this header goes to its landing.
  Result<pipe::Landing> LandInto(Lane& lane, const wire::FrameHeader& header, Op* op);
  // Of a send or a put: the peer has it, or says why not.
  static bool AwaitsResult(const Op& op);
  Status OnResult(Op* op, const Status& status);

  // ---- finding ----
  // Null: it has ended.
  Op* Find(uint64_t name) const { return ops_.Find(name); }
  // Null also if it is of another kind, has to do with another peer, or is about to end.
  Op* FindOf(uint64_t name, OpKind kind, const PeerLink& peer) const;
  std::vector<uint64_t> Names() const { return ops_.Names(); }
  bool Needs(const PeerLink& peer) const;
  uint32_t under_way() const { return ops_.in_use() + ends_.waiting(); }

  // ---- ending ----
  void End(Op* op, const Status& status);
  // The pipe may hold its memory: then the end waits until it does not.
  void EndOnceReleased(Op* op, const Status& status);
  void EndAllOf(const PeerLink* peer, const Status& why, bool waiting_too);
  void OnDeadline(Op* op);
  void OnCancelWanted(uint64_t name);
  // Ends all; from now on none begins.
  void Close();
  Ends& ends() { return ends_; }

 private:
  static void Move(Op* op, State to);
  void OnPiped(uint64_t name, const Status& status);
  void GiveUp(Op* op, const Status& why);
  void FreeOffer(Op* op);

  reactor::Reactor& home_;
  const Limits& limits_;
  Verbs& verbs_;
  OnRoom on_room_;
  Slots<Op, 31> ops_;  // bit 63 says whose table a name is from
  Ends ends_;
  bool closed_ = false;
};

}  // namespace p2p
}  // namespace fusewire

#endif  // FUSEWIRE_P2P_OP_TABLE_H_
