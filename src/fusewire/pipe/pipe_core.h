// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The life of a pipe: greeting, open, goodbye, closed. It hears the connection and the clock, hands what they say to
// the part that it is about (sender, intake, heartbeat), and alone decides when the pipe opens and closes. Home: the
// reactor of its connection. Owns: the connection and all parts. Fails: as a Pipe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/pipe/grants.h"
#include "fusewire/pipe/handshake.h"
#include "fusewire/pipe/heartbeat.h"
#include "fusewire/pipe/intake.h"
#include "fusewire/pipe/pipe_context.h"
#include "fusewire/pipe/pipe_handler.h"
#include "fusewire/pipe/pipe_stats.h"
#include "fusewire/pipe/sender.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/transport/transport.h"
#include "fusewire/wire/wire.h"

namespace fusewire::pipe {

class PipeCore final : private transport::ConnectionHandler, private reactor::Flushable {
 public:
  PipeCore(PipeContext& context, reactor::Reactor& home, std::unique_ptr<transport::Connection> connection, Role role,
           uint16_t service, PipeHandler* handler);
  ~PipeCore();

  // ---- see Pipe ----
  void Start(bool hands_over);
  void GoOn(const HandedOver& handed);
  void Close(Status why);
  void Leave(Status why);
  void Abort(const Status& why);
  void Abandon(wire::FrameKind kind, uint64_t call);
  bool open() const { return state_ == State::kOpen; }

  Sender& sender() { return sender_; }
  Intake& intake() { return intake_; }
  const Grants& grants() const { return grants_; }
  const PeerInfo& peer() const { return peer_; }
  const PipeStats& stats() const { return stats_; }
  reactor::Reactor& home() { return home_; }

 private:
  enum class State { kGreeting, kOpen, kSayingGoodbye, kClosed };

  // transport::ConnectionHandler
  size_t Landing(Bytes* parts, size_t parts_max) override { return intake_.Landing(parts, parts_max); }
  size_t LookAhead() override { return intake_.LookAhead(); }
  uint64_t Expected() override { return intake_.Expected(); }
  void OnLanded(size_t bytes) override;
  void OnBytes(ConstBytes bytes) override;
  void OnWritten(size_t bytes) override;
  void OnDelivered() override { FinishGoodbye(); }
  void OnClosed(Status why) override;
  // reactor::Flushable
  void Flush() override;

  void OnGreetingBytes(ConstBytes* bytes);
  void HandOver(ConstBytes rest);
  Status OpenWith(const wire::Hello& hello);
  void OnRead(const Status& status);
  void OnTick();
  void LookAtPeer();
  void AfterWrite();
  void FinishGoodbye();
  void EndAll(const Status& why);

  PipeContext& context_;
  reactor::Reactor& home_;
  std::unique_ptr<transport::Connection> connection_;
  PipeHandler* const handler_;
  State state_ = State::kGreeting;
  Status why_leaving_;  // not ok: closes once no express message waits for credit
  Status why_closing_;
  PeerInfo peer_;
  PipeStats stats_;

  Heartbeat heartbeat_;
  Sender sender_;
  Grants grants_;
  Intake intake_;
  std::unique_ptr<Handshake> handshake_;  // gone once open
  int64_t greeted_by_ns_ = 0;
  reactor::Timer tick_;  // heartbeats; before that the limit of the greeting; at the end the limit of the goodbye
};

}  // namespace fusewire::pipe
