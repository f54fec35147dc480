// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Pipe carries whole messages to one incarnation of one peer: in order, bounded by credit, landed where the receiver
// wants. Home: the reactor of its Connection. Owns: its Connection, and the Buffers of every message until the network
// is done with them. Fails: once; every pending Done is called with the reason, then PipeHandler::OnClosed. See
// docs/errors.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "fusewire/base/status.h"
#include "fusewire/buffer/buffer.h"
#include "fusewire/pipe/handshake.h"
#include "fusewire/pipe/options.h"
#include "fusewire/pipe/pipe_context.h"
#include "fusewire/pipe/pipe_handler.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/transport/transport.h"
#include "fusewire/wire/wire.h"

namespace fusewire::pipe {

class ReceiveWindow;

class Pipe final {
 public:
  // `context`, `home` and `handler` outlive the pipe.
  Pipe(PipeContext& context, reactor::Reactor& home, std::unique_ptr<transport::Connection> connection, Role role,
       uint16_t service, PipeHandler* handler);
  ~Pipe();

  // At home, once: begins the greeting. `hands_over`, of an acceptor: a peer that wants another service is not refused,
  // but handed over.
  void Start(bool hands_over = false);
  // Instead, of one that was handed over: goes on with it.
  void GoOn(const HandedOver& handed);
  // At home. Waits for the greeting, for credit and for its turn. `done` (if any) is called once the network is done
  // with the message, or the pipe has closed.
  void Send(Message message, Done done = nullptr);
  // At home. False: so much is waiting already that Send would refuse this message.
  bool HasRoom(size_t head_bytes) const;
  // Whether such a message is within the limits of both tasks: one beyond them would cost us the pipe, so Send refuses
  // it with kInvalid.
  Status CheckSize(size_t head_bytes, const Buffers& body) const;
  // At home. Tells the peer that we no longer want the answer to `call`. A call that has not begun to travel is taken
  // back.
  void Cancel(uint64_t call);
  // At home. We are done with a message; its bytes are the peer's credit again.
  void Consume(const wire::FrameHeader& header);
  // At home. If this message's body is coming in, the rest of it goes nowhere and the receiver's memory is free at
  // once.
  void Abandon(wire::FrameKind kind, uint64_t call);
  // At home. Says goodbye with the reason, if there is time, and closes. May be repeated.
  void Close(Status why);
  // At home. Closes once no express message waits for credit: Close would drop those.
  void Leave(Status why);
  // At home. Ends at once, without a goodbye and without OnClosed: for an owner that is about to destroy the pipe, so
  // that every Done comes while what it needs is still there.
  void Abort(const Status& why);

  bool open() const;
  // At home. Whether an express message of so much, all in all, would go at once and delay no other message.
  bool GoesAtOnce(uint64_t cost) const;
  // At home. The same of a message of any length, whose rest may follow in chunks and wait for the peer to read.
  bool BeginsAtOnce(uint64_t cost) const;
  const PeerInfo& peer() const;
  const PipeStats& stats() const;
  const ReceiveWindow& receive_window() const;
  reactor::Reactor& home();

 private:
  class Core;
  const std::unique_ptr<Core> core_;
};

}  // namespace fusewire::pipe
