// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A connection over another one, which carries what its session makes of the bytes. The session's handshake comes
// first.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "fusewire/base/status.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/transport/layer_session.h"
#include "fusewire/transport/transport.h"

namespace fusewire::transport {

class LayerConnection final : public Connection, private ConnectionHandler {
 public:
  LayerConnection(reactor::Reactor& home, std::unique_ptr<Connection> inner, std::unique_ptr<Session> session);
  ~LayerConnection() override;

  void Start(ConnectionHandler* handler) override;
  void Write(const ConstBytes* parts, size_t count) override;
  size_t BulkBytes() const override { return inner_->BulkBytes(); }
  bool Delivered() override;
  void Close(Status why) override;
  void Look() override { inner_->Look(); }
  std::unique_ptr<Incoming> HandOver() override;
  std::string Binding() override;
  const std::string& peer_address() const override { return inner_->peer_address(); }
  const char* wire() const override { return wire_; }

 private:
  size_t Landing(Bytes* parts, size_t parts_max) override;
  void OnLanded(size_t bytes) override;
  size_t LookAhead() override;
  uint64_t Expected() override;
  void OnBytes(ConstBytes bytes) override;
  void OnWritten(size_t bytes) override;
  void OnDelivered() override;
  void OnClosed(Status why) override;

  bool IsOver() const { return closed_ || session_ == nullptr; }  // nothing may be done any more
  void Take(ConstBytes bytes);
  void Proceed();
  void Deliver();
  bool Land(const Bytes* parts, size_t count);
  bool Show();
  void Send();

  reactor::Reactor& home_;
  std::unique_ptr<uint8_t[]> bulk_;  // where it lands, before it is read; null while little comes
  const std::unique_ptr<Connection> inner_;
  const char* const wire_;
  std::unique_ptr<Session> session_;  // null once it was handed over
  ConnectionHandler* handler_ = nullptr;
  bool sending_ = false;         // the inner connection has a Write that is unanswered
  bool write_waiting_ = false;   // a Write of ours is unanswered, and nothing of it was taken
  size_t taken_ = 0;             // of a Write that is unanswered: on its way
  bool owes_delivered_ = false;  // OnDelivered, once our own bytes are written
  bool closed_ = false;
  reactor::Timer later_;  // what came before it was handed over
};

// A connection that has come, or that was handed over, with its session if it has one.
class LayerIncoming final : public Incoming {
 public:
  LayerIncoming(std::unique_ptr<Incoming> inner, std::unique_ptr<Session> session)
      : inner_(std::move(inner)), session_(std::move(session)) {}

  Result<std::unique_ptr<Connection>> Adopt(reactor::Reactor& home) override {
    Result<std::unique_ptr<Connection>> inner = inner_->Adopt(home);
    if (!inner.ok()) return inner;
    return std::unique_ptr<Connection>(
        std::make_unique<LayerConnection>(home, std::move(inner).value(), std::move(session_)));
  }
  const std::string& peer_address() const override { return inner_->peer_address(); }

 private:
  const std::unique_ptr<Incoming> inner_;
  std::unique_ptr<Session> session_;
};

// For a connection that was dialled, or that has come. Any thread.
using MakeSession = std::function<Result<std::unique_ptr<Session>>(bool is_dialled)>;

// `session_bytes`: the memory of a session that has begun.
std::unique_ptr<Transport> MakeLayer(std::unique_ptr<Transport> beneath, size_t session_bytes,
                                     MakeSession make_session);

}  // namespace fusewire::transport
