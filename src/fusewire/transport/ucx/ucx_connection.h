// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One connection: it begins on the lower transport, where the two ends meet, and its stream goes on over UCX if both
// can. It steers: the negotiation knows which way the stream goes, the lower connection and the stream over UCX are the
// two ways. Home: one reactor. Owns: all three. Fails: as in transport.h.
#pragma once

#include "fusewire/transport/transport.h"
#include "fusewire/transport/ucx/worker.h"

#if FUSEWIRE_HAS_UCX

#include <memory>
#include <string>

#include "fusewire/transport/ucx/lower_connection.h"
#include "fusewire/transport/ucx/ucx_negotiation.h"
#include "fusewire/transport/ucx/ucx_stream.h"

namespace fusewire::transport {

class UcxConnection final : public Connection, private UcxLowerHandler, private UcxStreamHandler {
 public:
  // A dialler's end, in `dialled` words its address; or a listener's.
  UcxConnection(reactor::Reactor& home, UcxWorker* worker, const UcxOptions& options, std::unique_ptr<Connection> lower,
                std::string dialled);
  ~UcxConnection() override;

  // The dialler's end, once, before Start.
  void Greet();
  void Start(ConnectionHandler* handler) override;
  void Write(const ConstBytes* parts, size_t count) override;
  bool Delivered() override { return negotiation_.moved() || lower_.Delivered(); }
  void Close(Status why) override;
  void Look() override;
  void TakeBackLanding() override;
  const std::string& peer_address() const override { return lower_.connection().peer_address(); }
  const char* wire() const override { return negotiation_.moved() ? "ucx" : lower_.connection().wire(); }

 private:
  // Events of the lower connection.
  void OnControl(const UcxControlMessage& message, ConstBytes address) override;
  void OnStranger(ConstBytes begun) override;
  void OnMisbehaved(Status why) override { Fail(std::move(why)); }
  void OnControlSent() override;
  void OnLowerWritten(size_t bytes) override;
  void OnLowerClosed(Status why) override;
  // Events of the stream over UCX.
  void OnStream() override;

  void Move();
  void AnswerWrite();
  void DeliverRecords();
  void FinishIfEnded();
  void Fail(Status why) { Close(why.Next("check that the peer is running and reachable")); }
  void Stop();
  void AwaitSettled();
  void TellEnd();
  void DoLater();

  reactor::Reactor& home_;
  UcxLowerConnection lower_;
  UcxStream stream_;
  UcxNegotiation negotiation_;
  ConnectionHandler* handler_ = nullptr;
  bool write_waiting_ = false;  // a Write is unanswered
  bool closed_ = false, told_ = false;
  bool lower_tells_end_ = false;  // our end is the lower connection's: it tells when
  bool waits_for_rest_ = false, waits_for_end_ = false;
  Status why_closed_;

  reactor::Timer later_;  // what must not happen inside of a call to us
  reactor::Timer grace_;  // how long the other half of an end may take
};

}  // namespace fusewire::transport

#endif
