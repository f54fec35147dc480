// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A message to send, and its cost in the peer's window.
// Home: the pipe's. Owns: the Buffers of the body. Fails: never; Pipe::Send documents its limits.
#pragma once

#include <cstdint>

#include "fusewire/base/bytes.h"
#include "fusewire/buffer/buffer.h"
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

}  // namespace fusewire::pipe
