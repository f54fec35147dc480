// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The handling of incoming messages: one interface for all readers, from the frame reader up to rpc and p2p. Home: the
// pipe's. Fails: an error closes the pipe.
#pragma once

#include <cstdint>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/pipe/landing.h"
#include "fusewire/wire/wire.h"

namespace fusewire::pipe {

// All calls at home; none may destroy the pipe.
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
