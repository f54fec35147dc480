// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The events and the counters of a pipe, for its owner.
// Home: the pipe's; any thread may read the counters.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fusewire/base/check.h"
#include "fusewire/base/metrics.h"
#include "fusewire/base/status.h"
#include "fusewire/pipe/message.h"
#include "fusewire/pipe/peer_info.h"
#include "fusewire/transport/transport.h"

namespace fusewire::pipe {

// A connection whose peer has asked for another service than the pipe's, on its way to a home of that service.
struct HandedOver {
  uint16_t service = 0;
  std::unique_ptr<transport::Incoming> incoming;
  Status refusal;             // not ok: the service is not offered, and this is what the peer is told
  std::string heard;          // its hello, and what came with it
  int64_t greeted_by_ns = 0;  // the rest of its greeting must have come by then
};

// The beginning and the end of a pipe. All calls at home. None may destroy the pipe, except that OnClosed may.
class PipeHandler {
 public:
  // The greeting is over. Returns what takes the messages from now on; it stays until OnClosed.
  virtual FrameHandler* OnOpen(const PeerInfo& peer) = 0;
  // The last call, exactly once, never from inside a call of ours to the pipe.
  virtual void OnClosed(Status why) = 0;
  // Once instead of both, if it was started so: the peer wants another service. The pipe is of no use any more, and not
  // to be destroyed yet.
  virtual void OnHandedOver(HandedOver) { FUSEWIRE_CHECK(false); }

 protected:
  ~PipeHandler() = default;
};

// Both in one.
class Receiver : public PipeHandler, public FrameHandler {
 public:
  virtual ~Receiver() = default;
};

struct PipeStats {
  Counter messages_in, messages_out, bytes_in, bytes_out, frames_in, frames_out;
  Counter credit_stalls;  // a message had to wait for the peer's credit
  Counter budget_stalls;  // the peer had to wait for our budget
  Histogram ping_ns;
};

}  // namespace fusewire::pipe
