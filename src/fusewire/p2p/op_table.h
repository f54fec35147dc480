// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The operations that are under way: begins them, lets them wait, ends each exactly once. Only the op table changes the
// state of an operation.
// Home: the endpoint's. Owns: their ids, not the operations. Fails: each operation on its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "fusewire/base/list.h"
#include "fusewire/base/slots.h"
#include "fusewire/base/status.h"
#include "fusewire/base/unique_function.h"
#include "fusewire/p2p/lane.h"
#include "fusewire/p2p/limits.h"
#include "fusewire/p2p/op.h"
#include "fusewire/p2p/peer_link.h"
#include "fusewire/p2p/verbs.h"
#include "fusewire/pipe/pipe.h"
#include "fusewire/reactor/completion.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/wire/p2p.h"
#include "fusewire/wire/wire.h"

namespace fusewire::p2p {

// The state of a Signal: its counter, and the operations that wait for it.
// Any thread may read the value. The Signal owns it.
struct SignalState {
  uint64_t name = 0;
  std::atomic<uint64_t> value{0};
  List<Op> waiting;
};

// Reports the end of an operation to its maker: once per Post, and never inside it.
class EndReports final : private reactor::Flushable {
 public:
  // While one exists, an operation is being posted: `then` runs only when what was sent is on its way.
  class Posting {
   public:
    explicit Posting(EndReports& ends) : end_reports_(ends), outer_(std::exchange(ends.posting_, true)) {}
    ~Posting() { end_reports_.posting_ = outer_; }
    Posting(const Posting&) = delete;
    Posting& operator=(const Posting&) = delete;

   private:
    EndReports& end_reports_;
    const bool outer_;
  };

  // `drain` counts the operations.
  EndReports(reactor::Reactor& home, reactor::Drain& drain) : home_(home), drain_(drain) {}

  // Of an operation that has left the op table and has its status.
  void Report(Op* op);
  // Of an operation that Report had sent as mail.
  void OnMail(Op* op);

 private:
  void Flush() override;
  void Tell(Op* op);

  reactor::Reactor& home_;
  reactor::Drain& drain_;
  bool posting_ = false;
  List<Op> later_;
};

class OpTable {
 public:
  using State = OpRun::State;
  // A peer takes offers again, and operations wait for that.
  using OnRoom = UniqueFunction<void(PeerLink* peer)>;

  // `drain` counts the operations.
  OpTable(reactor::Reactor& home, const Limits& limits, Verbs& verbs, reactor::Drain& drain, OnRoom on_room);
  ~OpTable();

  // ---- beginning ----
  // Any thread. The operation is about to be posted; `word`: see OpRun.
  static void Prepare(Op* op, uintptr_t word);
  // Gives it an id and a deadline. False: it has ended.
  bool Enter(Op* op);
  // Queues it: its peer is not connected, or takes no more, or others are queued before it.
  void Wait(Op* op);
  // Takes it out of the queue, unless it has ended.
  void LeaveQueue(uint64_t name);

  // ---- on its way ----
  void Posted(Op* op) { Move(op, State::kPosted); }
  void Requested(Op* op) { Move(op, State::kRequested); }
  void Sent(Op* op) { Move(op, State::kSent); }
  // It counts as one of its peer's offers until it ends.
  void Offered(SendOp* op);
  // A message without a body is copied, and its memory is free at once. Otherwise the pipe holds the memory (in_pipe)
  // until the network has it. False: it cannot be sent, and `op` has ended or is ending.
  bool Send(Op* op, Lane* lane, pipe::Message message);
  // The body of this header lands in `op`.
  Result<pipe::Landing> LandInto(Lane& lane, const wire::FrameHeader& header, Op* op);
  // Of a send or a put: the peer sends whether it has the bytes, or why not.
  static bool AwaitsResult(const Op& op);
  Status OnResult(Op* op, const Status& status);

  // ---- finding ----
  // Null: it has ended.
  Op* Find(uint64_t name) const { return ops_.Find(name); }
  // Null also if it is of another kind, is with another peer, or is ending.
  Op* FindOf(uint64_t name, OpKind kind, const PeerLink& peer) const;
  std::vector<uint64_t> Names() const { return ops_.Names(); }
  bool Needs(const PeerLink& peer) const;

  // ---- ending ----
  void End(Op* op, const Status& status);
  // If the pipe holds its memory, the end waits until the pipe has given it back.
  void EndOnceReleased(Op* op, const Status& status);
  void EndAllOf(const PeerLink* peer, const Status& why, bool waiting_too);
  void OnDeadline(Op* op);
  void OnCancelWanted(uint64_t name);
  // Ends all operations; from now on none begins.
  void Close();
  EndReports& end_reports() { return end_reports_; }

 private:
  static void Move(Op* op, State to);
  void OnPiped(uint64_t name, const Status& status);
  void GiveUp(Op* op, const Status& why);
  void FreeOffer(Op* op);

  reactor::Reactor& home_;
  const Limits& limits_;
  Verbs& verbs_;
  reactor::Drain& drain_;
  OnRoom on_room_;
  Slots<Op, 31> ops_;  // an id leaves bit 63 free, which says in a frame whose table the id is from
  EndReports end_reports_;
  bool closed_ = false;
};

}  // namespace fusewire::p2p
