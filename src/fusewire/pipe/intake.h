// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The receiving side of a pipe: bytes become frames, messages land where their receiver wants them and are counted
// against the credit, and the peer's frames about credit and its being alive go to the part that they are about.
// Home: the pipe's. Owns: the frame that is coming in, and the credit that the peer has. Fails: with what the peer, or
// the receiver, did wrong; for good.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/pipe/frame_handler.h"
#include "fusewire/pipe/frame_reader.h"
#include "fusewire/pipe/grants.h"
#include "fusewire/pipe/heartbeat.h"
#include "fusewire/pipe/landing.h"
#include "fusewire/pipe/options.h"
#include "fusewire/pipe/pipe_stats.h"
#include "fusewire/pipe/sender.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/wire/wire.h"

namespace fusewire::pipe {

class Intake final : private FrameSink {
 public:
  // All references outlive it.
  Intake(const Options& options, reactor::Reactor& home, Sender& sender, Grants& grants, Heartbeat& heartbeat,
         PipeStats& stats);

  // The greeting is over; what comes from now on is for `messages`.
  void Open(uint32_t chunk_bytes, FrameHandler* messages);
  // Later bytes are discarded.
  void Close();

  // As in transport::ConnectionHandler. Not before Open, apart from LookAhead.
  size_t Landing(Bytes* parts, size_t parts_max) const;
  size_t LookAhead() const;
  // Of a body that has begun, what has not come yet.
  uint64_t Expected() const { return open() ? reader_.Expected() : 0; }
  uint64_t Arriving() const { return reader_.Arriving(); }
  Status OnLanded(size_t bytes) { return reader_.OnLanded(bytes); }
  Status OnBytes(ConstBytes bytes) { return reader_.OnBytes(bytes); }
  // Not ok: the peer has said goodbye, with this reason.
  const Status& goodbye() const { return goodbye_; }
  // At times: whether what comes in makes sense.
  Status CheckMetaGrows(int64_t now_ns);

  // See Pipe.
  void Consume(const wire::FrameHeader& header);
  bool IsFilling(wire::FrameKind kind, uint64_t call) const { return reader_.IsFilling(kind, call); }
  void Abandon(wire::FrameKind kind, uint64_t call) { reader_.Abandon(kind, call); }

 private:
  bool open() const { return messages_ != nullptr; }
  // FrameSink
  Result<pipe::Landing> OnHeader(const wire::FrameHeader& header, ConstBytes meta) override;
  Status OnMessage(const wire::FrameHeader& header, ConstBytes meta, ConstBytes view) override;
  Status OnControl(const wire::FrameHeader& header, ConstBytes meta) override;
  void OnGoodbye(const wire::FrameHeader& header, ConstBytes meta);

  const Options& options_;
  reactor::Reactor& home_;
  Sender& sender_;
  Grants& grants_;
  Heartbeat& heartbeat_;
  PipeStats& stats_;
  FrameHandler* messages_ = nullptr;  // while it is open
  FrameReader reader_;
  Status goodbye_;
  uint64_t meta_at_check_ = 0;  // which frame's meta was coming in when we last looked, counted from 1; or 0
  int64_t meta_since_ns_ = 0;   // when we first looked and it was
};

}  // namespace fusewire::pipe
