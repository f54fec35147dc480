// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A connection that has come, or that was handed over, with its session if it has one.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "fusewire/transport/layer_connection.h"
#include "fusewire/transport/layer_session.h"
#include "fusewire/transport/transport.h"

namespace fusewire::transport {

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

}  // namespace fusewire::transport
