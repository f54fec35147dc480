// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Listens and dials on one host of a loopback network.
#pragma once

#include <memory>
#include <string>

#include "fusewire/transport/transport.h"
#include "loopback/loopback_connection.h"
#include "loopback/network.h"
#include "loopback/stream.h"

namespace fusewire::transport {

class LoopbackListener final : public Listener {
 public:
  LoopbackListener(Network* network, Host* host, reactor::Reactor& home, Address address, OnIncoming on_incoming);
  ~LoopbackListener() override;
  Address address() const override { return address_; }
  // Outside of any home.
  void Offer(LoopbackEnd end, std::string peer_address);

 private:
  Network* const network_;
  Host* const host_;
  reactor::Reactor& home_;
  const Address address_;
  OnIncoming on_incoming_;
  // shared_ptr: our own mail may arrive after our destruction, and must notice that.
  std::shared_ptr<bool> alive_;
};

class LoopbackDialing final : public Dialing {
 public:
  LoopbackDialing(Network* network, Streams* streams, Host* host, reactor::Reactor& home, Address address,
                  OnDialed on_dialed);
  ~LoopbackDialing() override { *alive_ = false; }
  void Start(int64_t timeout_ns);

 private:
  void After(int64_t delay_ns, void (LoopbackDialing::*step)());
  void Knock();
  void Connect(Host* target, LoopbackListener* listener);
  void Answer(Status why);
  void Finish();

  Network* const network_;
  Streams* const streams_;
  Host* const host_;
  reactor::Reactor& home_;
  const Address address_;
  OnDialed on_dialed_;
  int64_t began_ns_ = 0;
  std::unique_ptr<Connection> connection_;
  Status error_;
  reactor::Timer deadline_;
  // shared_ptr: the network's answer may arrive after our destruction, and must notice that.
  std::shared_ptr<bool> alive_;
};

class LoopbackTransport final : public Transport {
 public:
  LoopbackTransport(Network* network, Streams* streams, Host* host)
      : network_(network), streams_(streams), host_(host) {}
  Result<std::unique_ptr<Listener>> Listen(reactor::Reactor& home, const Address& address,
                                           OnIncoming on_incoming) override;
  std::unique_ptr<Dialing> Dial(reactor::Reactor& home, const Address& address, int64_t timeout_ns,
                                OnDialed on_dialed) override;
  bool HandsOver() const override { return true; }

 private:
  Network* const network_;
  Streams* const streams_;
  Host* const host_;
};

}  // namespace fusewire::transport
