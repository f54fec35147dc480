// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The events of a pipe, for its owner: it has opened, with this peer; it has closed.
// Home: the pipe's.
#pragma once

#include "fusewire/base/status.h"
#include "fusewire/pipe/frame_handler.h"
#include "fusewire/pipe/peer_info.h"

namespace fusewire::pipe {

// The beginning and the end of a pipe. All calls at home. None may destroy the pipe, except that OnClosed may.
class PipeHandler {
 public:
  // The greeting is over. Returns what takes the messages from now on; it stays until OnClosed.
  virtual FrameHandler* OnOpen(const PeerInfo& peer) = 0;
  // The last call, exactly once, never from inside a call of ours to the pipe.
  virtual void OnClosed(Status why) = 0;

 protected:
  ~PipeHandler() = default;
};

// Both in one.
class Receiver : public PipeHandler, public FrameHandler {
 public:
  virtual ~Receiver() = default;
};

}  // namespace fusewire::pipe
