// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Lane is one pipe to a peer, dialled or accepted, in use or not, with the bodies that are arriving on it. The two
// kinds are in lanes.h.
// Home: the endpoint's. Fails: Take, when a third body begins before two others have ended: kCorrupt.
#pragma once

#include <cstdint>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/pipe/pipe.h"
#include "fusewire/wire/p2p.h"

namespace fusewire::p2p {

struct UnexpectedMessage;

// A body that is arriving. It lands in an operation, an unexpected message or a region; or it is dropped.
struct Arriving {
  bool used = false;
  uint64_t call = 0;                        // of its header
  uint64_t op = 0;                          // the operation that it lands in, or 0
  UnexpectedMessage* unexpected = nullptr;  // or the unexpected message that it lands in
  uint64_t region = 0;                      // or the region that it lands in
  Bytes part;                               // of that region or message
  Status refusal;                           // why it is dropped, for its sender
};

class Lane {
 public:
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  virtual ~Lane() = default;
  // Null: the pipe is not open.
  virtual pipe::Pipe* pipe() = 0;
  // For a dialled lane: whether it leads to this address.
  virtual bool IsTo(const transport::Address&) const { return false; }
  // There is something to send: a dialled lane connects.
  virtual void Want() {}
  // As of a Pipe, in any state of the pipe.
  virtual void Abandon(uint64_t call) = 0;
  virtual void Close(Status why) = 0;
  virtual void Leave(Status why) = 0;

  // A body begins. A pipe has at most two unfinished ones: a long one, and a short one between its chunks.
  Result<Arriving*> Take(uint64_t call);
  Arriving* Find(uint64_t call);
  // The body has arrived. Call it once.
  Arriving Landed(uint64_t call);
  // Drops this body, which has just begun.
  Result<pipe::Landing> LandNowhere(uint64_t call, Status why);
  // Drops the rest of what is landing in this operation, or this region.
  void AbandonOp(uint64_t op);
  void AbandonRegion(uint64_t region, const Status& why);

  pipe::PeerInfo info;
  bool open_sent = false;
  bool open_received = false;
  uint64_t promised = 0;  // the credit in our open
  wire::P2pMessage open;  // the peer's open, without its views
  Arriving arriving[2];

 protected:
  Lane() = default;
};

}  // namespace fusewire::p2p
