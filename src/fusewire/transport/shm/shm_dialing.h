// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One attempt to meet a task of this machine: the places where it may be met in turn, within one deadline.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/transport/dialing.h"
#include "fusewire/transport/shm/peer_process.h"
#include "fusewire/transport/shm/shm_connection.h"
#include "fusewire/transport/transport.h"

namespace fusewire::transport {

class ShmDialing final : public DialingInTurn {
 public:
  ShmDialing(reactor::Reactor& home, Address address, const ShmOptions& options, OnDialed on_dialed)
      : DialingInTurn(home, std::move(address), std::move(on_dialed)), options_(options) {}

 private:
  void OnNames(const Names& names) override;
  void TryNext() override;
  void Drop() override;
  void OnEvents(uint32_t epoll_events) override;
  Status Connect();
  Status TakeKnock(const Packet& knock);
  void TakeWelcome(const ShmControlMessage& welcome);
  Status SayHello(uint64_t answer);

  const ShmOptions& options_;
  std::vector<UnixAddress> places_;
  std::string number_;  // of the host, for words
  PeerProcess process_;
  uint64_t nonce_ = 0;
  std::unique_ptr<ShmConnection> connection_;  // from our hello on
};

}  // namespace fusewire::transport
