// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Regions and signals: ours, which peers access, and the puts and gets that access theirs.
// Home: the endpoint's. Owns: our regions' memory while it is in use. Fails: each operation on its own; a peer that
// names a region or signal that does not exist gets an error, and nothing is written.
#pragma once

#include <cstdint>

#include "fusewire/base/bytes.h"
#include "fusewire/base/slots.h"
#include "fusewire/base/status.h"
#include "fusewire/buffer/buffer.h"
#include "fusewire/p2p/lane.h"
#include "fusewire/p2p/op.h"
#include "fusewire/p2p/op_table.h"
#include "fusewire/p2p/peer_link.h"
#include "fusewire/p2p/verbs.h"
#include "fusewire/pipe/pipe.h"
#include "fusewire/wire/p2p.h"
#include "fusewire/wire/wire.h"

namespace fusewire::p2p {

struct RegionState {
  Buffer memory;
  Access access = Access::kReadWrite;
  uint64_t uses = 1;  // by the Region, and by each answer that the network still holds
};

class Regions {
 public:
  Regions(const Self& self, const wire::Limits& wire_limits, Peers& peers, OpTable& table, Verbs& verbs);
  ~Regions();

  // ---- ours ----
  Result<RegionRef> Open(Buffer memory, Access access);
  // Nothing is written after it.
  void Close(RegionRef ref);
  // 0: regions_max signals are open.
  uint64_t OpenSignal(SignalState* state) { return signals_.Take(state); }
  void CloseSignal(SignalState* state);
  // Does nothing if the signal is gone. The sum fits: see CheckAdd.
  void AddToSignal(uint64_t name, uint64_t amount);
  // A signal counts up to 2^64 - 1 and never wraps: returns why the amount does not fit. Ok if the signal is gone.
  Status CheckAdd(uint64_t name, uint64_t amount) const;

  // ---- our operations ----
  void Begin(AwaitOp* op);
  // The peer's pipe is open. False: it cannot be sent now. It may have ended when this returns.
  bool Dispatch(PutOp* op);
  bool Dispatch(GetOp* op);

  // ---- from peers ----
  Result<pipe::Landing> OnPutHeader(Lane& lane, const wire::FrameHeader& header, const wire::P2pMessage& message);
  Result<pipe::Landing> OnGotHeader(Lane& lane, PeerLink& peer, const wire::FrameHeader& header,
                                    const wire::P2pMessage& message);
  Status OnPut(Lane& lane, PeerLink& peer, const wire::FrameHeader& header, const wire::P2pMessage& message);
  Status OnGet(Lane& lane, PeerLink& peer, const wire::P2pMessage& message);
  Status OnGot(Lane& lane, PeerLink& peer, const wire::FrameHeader& header, const wire::P2pMessage& message);

 private:
  Result<Bytes> PartOf(uint64_t region, uint64_t offset, uint64_t bytes, Access access);
  Result<Bytes> PartOfPut(const wire::P2pMessage& message, uint64_t bytes);
  void Answer(Lane& lane, PeerLink& peer, const wire::P2pMessage& message, ConstBytes bytes);
  GetOp* FindAsked(const PeerLink& peer, const wire::P2pMessage& message);

  const Self& self_;
  const wire::Limits& wire_limits_;
  Peers& peers_;
  OpTable& table_;
  Verbs& verbs_;
  Slots<RegionState, 31> regions_;
  Slots<SignalState, 31> signals_;
};

}  // namespace fusewire::p2p
