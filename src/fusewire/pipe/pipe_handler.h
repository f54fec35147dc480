// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What goes in and out of a pipe: a message to send, the handling of those that come in (one interface for all readers,
// from the frame reader up to rpc and p2p), and a pipe's events and counters for its owner.
// Home: the pipe's; any thread may read the counters. Owns: a message its Buffers. Fails: Pipe::Send documents the
// limits of a message; an error of a handler closes the pipe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fusewire/base/bytes.h"
#include "fusewire/base/check.h"
#include "fusewire/base/metrics.h"
#include "fusewire/base/status.h"
#include "fusewire/buffer/buffer.h"
#include "fusewire/pipe/landing.h"
#include "fusewire/pipe/peer_info.h"
#include "fusewire/transport/transport.h"
#include "fusewire/wire/wire.h"

namespace fusewire::pipe {

struct Message {
  wire::FrameKind kind = wire::FrameKind::kMessage;
  uint16_t method = 0;
  uint32_t aux = 0;
  uint64_t call = 0;
  ConstBytes head;  // copied before Send returns
  Buffers body;     // held until the network is done with them
  // May overtake messages that are not express, also between the chunks of one. Express messages keep their own order.
  // Ignored for a message that is longer than the chunk that was agreed with the peer.
  bool express = false;
};

// The cost of a message in the window.
inline uint64_t WindowCost(const wire::FrameHeader& header) {
  return wire::kHeaderBytes + header.meta_bytes + header.body_bytes;
}

// Takes the messages that come in. All calls at home; none may destroy the pipe.
class FrameHandler {
 public:
  // A message begins: where shall its body land? Nothing has been allocated for it yet. Every length is within the
  // limits, and the credit covers it.
  virtual Result<Landing> OnHeader(const wire::FrameHeader& header, ConstBytes meta) = 0;
  // It is complete. `view` is the body if it was to be viewed. The receiver calls Pipe::Consume(header) once, now or
  // later: until then the message counts against the peer's window.
  virtual Status OnMessage(const wire::FrameHeader& header, ConstBytes meta, ConstBytes view) = 0;
  // The peer no longer wants the answer to this call of its. Ignored by a side that answers nothing.
  virtual void OnCancel(uint64_t /*call*/) {}

 protected:
  ~FrameHandler() = default;
};

// A connection whose peer has asked for another service than the pipe's, on its way to a home of that service.
struct HandedOver {
  uint16_t service = 0;
  std::unique_ptr<transport::Incoming> incoming;
  Status refusal;             // not ok: the service is not offered, and the reason for the peer
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
