// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Accepts what connects to a listening socket, and stays alive when the process runs out of descriptors.
// Home: one reactor. Owns: the socket. Fails: Start, when it cannot be watched.
#pragma once

#include "fusewire/base/log.h"
#include "fusewire/transport/socket_address.h"
#include "fusewire/transport/transport.h"

namespace fusewire::transport {

class Accepting final : private reactor::FdHandler {
 public:
  // At home: each connection, and its address as accept says it.
  using OnAccepted = UniqueFunction<void(Fd fd, const SocketAddress& peer)>;
  // `address`: of the listener, for words.
  Accepting(reactor::Reactor& home, Fd fd, const Address& address, OnAccepted on_accepted);
  ~Accepting();
  Status Start();

 private:
  void OnEvents(uint32_t epoll_events) override;
  void TurnAwaySome();

  reactor::Reactor& home_;
  Fd fd_;
  Fd spare_;  // given up for a moment to accept and close one connection when no descriptor is left
  const Address address_;
  OnAccepted on_accepted_;
  LogLimiter full_log_{10 * kSecondNs};
  bool watched_ = false;
  reactor::Timer resume_;
};

}  // namespace fusewire::transport
