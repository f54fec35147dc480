// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A message to send, its cost in the peer's window, and the handling of incoming messages: one interface for all
// readers, from the frame reader up to rpc and p2p.
// Home: the pipe's. Owns: the Buffers of the body. Fails: Pipe::Send documents the limits of a message; an error of a
// handler closes the pipe.
#pragma once

#include <cstdint>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/buffer/buffer.h"
#include "fusewire/pipe/landing.h"
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
  // The peer no longer wants the answer to this call of its. Of no use to a side that answers nothing.
  virtual void OnCancel(uint64_t /*call*/) {}

 protected:
  ~FrameHandler() = default;
};

}  // namespace fusewire::pipe
