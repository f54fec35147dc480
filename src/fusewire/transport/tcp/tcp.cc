// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/tcp/tcp.h"

#include <utility>

#include "fusewire/transport/resolver.h"
#include "fusewire/transport/tcp/tcp_dialing.h"
#include "fusewire/transport/tcp/tcp_listener.h"

namespace fusewire::transport {
namespace {

class TcpTransport final : public Transport {
 public:
  explicit TcpTransport(TcpOptions options) : resolver_(std::move(options.resolve)), options_(std::move(options)) {}

  Result<std::unique_ptr<Listener>> Listen(reactor::Reactor& home, const Address& address,
                                           OnIncoming on_incoming) override {
    return TcpListener::Open(home, address, options_, std::move(on_incoming));
  }

  std::unique_ptr<Dialing> Dial(reactor::Reactor& home, const Address& address, int64_t timeout_ns,
                                OnDialed on_dialed) override {
    auto dialing = std::make_unique<TcpDialing>(home, address, options_, std::move(on_dialed));
    dialing->Start(&resolver_, timeout_ns);
    return dialing;
  }
  bool HandsOver() const override { return true; }

 private:
  Resolver resolver_;
  const TcpOptions options_;
};

}  // namespace

std::unique_ptr<Transport> MakeTcp(TcpOptions options) { return std::make_unique<TcpTransport>(std::move(options)); }

}  // namespace fusewire::transport
