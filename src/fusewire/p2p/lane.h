// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Lane is one pipe to a peer, dialled or accepted, whether it is the one in use or not; and what is coming in on it.
// lanes.h has the two that there are.
// Home: the endpoint's. Owns: nothing. Fails: a third body inside two others, which no honest peer sends.
#ifndef FUSEWIRE_P2P_LANE_H_
#define FUSEWIRE_P2P_LANE_H_

#include <cstdint>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/pipe/pipe.h"
#include "fusewire/wire/p2p.h"

namespace fusewire {
namespace p2p {

struct UnexpectedMessage;

// A body that is coming in. It lands in one of: an operation, an unexpected message, a region; or nowhere.
struct Arriving {
  bool used = false;
  uint64_t call = 0;                        // of its header
  uint64_t op = 0;                          // our operation that it lands in, or 0
  UnexpectedMessage* unexpected = nullptr;  // or the unexpected message
  uint64_t region = 0;                      // or the region
  Bytes part;                               // of the region
  Status refusal;                           // it goes nowhere, and this is why
};

class Lane {
 public:
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  virtual ~Lane() = default;
  // The open pipe, or null.
  virtual pipe::Pipe* pipe() = 0;
  // Of a dialled one: there is something to send.
  virtual void Want() {}
  // As Pipe's, in whatever state the pipe is.
  virtual void Abandon(uint64_t call) = 0;
  virtual void Close(Status why) = 0;

  // A pipe has at most two unfinished bodies: a long one, and a short one between its chunks.
  Result<Arriving*> Take(uint64_t call);
  Arriving* Find(uint64_t call);
  // It has all come.
  Arriving Landed(uint64_t call);
  // This body goes nowhere.
  Result<pipe::Landing> LandNowhere(uint64_t call, Status why);
  // What is landing for this operation goes nowhere from now on.
  void AbandonOp(uint64_t op);
  void AbandonRegion(uint64_t region, const Status& why);

  pipe::PeerInfo info;
  bool open_sent = false;
  bool open_received = false;
  uint64_t promised = 0;  // of our memory for small messages, when we said it
  wire::P2pMessage open;  // what it said then, but for its views
  Arriving arriving[2];

 protected:
  Lane() = default;
};

}  // namespace p2p
}  // namespace fusewire

#endif  // FUSEWIRE_P2P_LANE_H_
