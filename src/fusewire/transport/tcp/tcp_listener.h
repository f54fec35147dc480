// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Accepts TCP connections and stays alive when the process runs out of descriptors.
#ifndef FUSEWIRE_TRANSPORT_TCP_TCP_LISTENER_H_
#define FUSEWIRE_TRANSPORT_TCP_TCP_LISTENER_H_

#include <memory>

#include "fusewire/base/log.h"
#include "fusewire/transport/tcp/socket.h"
#include "fusewire/transport/transport.h"

namespace fusewire {
namespace transport {

class TcpListener final : public Listener, private reactor::FdHandler {
 public:
  static Result<std::unique_ptr<Listener>> Open(reactor::Reactor& home, const Address& address,
                                                const TcpOptions& options, OnIncoming on_incoming);
  TcpListener(reactor::Reactor& home, Fd fd, const Address& address, const TcpOptions& options, OnIncoming on_incoming);
  ~TcpListener() override;
  Address address() const override { return address_; }

 private:
  void OnEvents(uint32_t epoll_events) override;
  void TurnAwaySome();

  reactor::Reactor& home_;
  Fd fd_;
  Fd spare_;  // given up for a moment to accept and close one connection when no descriptor is left
  const Address address_;
  const TcpOptions& options_;
  OnIncoming on_incoming_;
  LogLimiter full_log_{10 * kSecondNs};
  reactor::Timer resume_;
};

}  // namespace transport
}  // namespace fusewire

#endif  // FUSEWIRE_TRANSPORT_TCP_TCP_LISTENER_H_
