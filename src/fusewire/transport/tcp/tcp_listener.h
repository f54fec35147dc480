// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Accepts TCP connections, and survives when the process runs out of descriptors.
#pragma once

#include <memory>

#include "fusewire/transport/accepting.h"
#include "fusewire/transport/tcp/socket.h"
#include "fusewire/transport/tcp/tcp_options.h"
#include "fusewire/transport/transport.h"

namespace fusewire::transport {

class TcpListener final : public Listener {
 public:
  static Result<std::unique_ptr<Listener>> Open(reactor::Reactor& home, const Address& address,
                                                const TcpOptions& options, OnIncoming on_incoming);
  TcpListener(reactor::Reactor& home, Fd fd, const Address& address, const TcpOptions& options, OnIncoming on_incoming);
  Address address() const override { return address_; }

 private:
  const Address address_;
  const TcpOptions& options_;
  OnIncoming on_incoming_;
  Accepting accepting_;
};

}  // namespace fusewire::transport
