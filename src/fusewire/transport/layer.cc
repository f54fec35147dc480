// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/layer.h"

#include <string>
#include <utility>

#include "fusewire/base/log.h"
#include "fusewire/transport/layer_connection.h"

namespace fusewire::transport {
namespace {

class LayerTransport final : public Transport {
 public:
  LayerTransport(std::unique_ptr<Transport> beneath, size_t session_bytes, MakeSession make_session)
      : beneath_(std::move(beneath)), session_bytes_(session_bytes), make_session_(std::move(make_session)) {}

  Result<std::unique_ptr<Listener>> Listen(reactor::Reactor& home, const Address& address,
                                           OnIncoming on_incoming) override {
    auto come = [make = make_session_, on_incoming = std::move(on_incoming)](std::unique_ptr<Incoming> one) mutable {
      Result<std::unique_ptr<Session>> session = make(false);
      if (!session.ok()) {
        const std::string why = session.status().Explained();
        FUSEWIRE_LOG(kWarn, "%s is turned away: %s", one->peer_address().c_str(), why.c_str());
        return;
      }
      on_incoming(std::make_unique<LayerIncoming>(std::move(one), std::move(session).value()));
    };
    return beneath_->Listen(home, address, std::move(come));
  }

  std::unique_ptr<Dialing> Dial(reactor::Reactor& home, const Address& address, int64_t timeout_ns,
                                OnDialed on_dialed) override {
    auto dialled = [&home, make = make_session_,
                    on_dialed = std::move(on_dialed)](Result<std::unique_ptr<Connection>> made) mutable {
      if (!made.ok()) {
        on_dialed(made.status());
        return;
      }
      Result<std::unique_ptr<Session>> session = make(true);
      if (!session.ok()) {
        on_dialed(session.status());
        return;
      }
      on_dialed(std::unique_ptr<Connection>(
          std::make_unique<LayerConnection>(home, std::move(made).value(), std::move(session).value())));
    };
    return beneath_->Dial(home, address, timeout_ns, std::move(dialled));
  }
  bool HandsOver() const override { return beneath_->HandsOver(); }
  size_t GreetingBytes() const override { return beneath_->GreetingBytes() + session_bytes_; }

 private:
  const std::unique_ptr<Transport> beneath_;
  const size_t session_bytes_;
  const MakeSession make_session_;
};

}  // namespace

std::unique_ptr<Transport> MakeLayer(std::unique_ptr<Transport> beneath, size_t session_bytes,
                                     MakeSession make_session) {
  return std::make_unique<LayerTransport>(std::move(beneath), session_bytes, std::move(make_session));
}

}  // namespace fusewire::transport
