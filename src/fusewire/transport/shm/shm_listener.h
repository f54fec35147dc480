// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Meets processes that want to share memory. It goes on when this process runs out of descriptors.
#pragma once

#include <memory>

#include "fusewire/base/list.h"
#include "fusewire/base/log.h"
#include "fusewire/transport/accepting.h"
#include "fusewire/transport/shm/control_message.h"
#include "fusewire/transport/shm/peer_process.h"
#include "fusewire/transport/shm/shm_options.h"
#include "fusewire/transport/transport.h"

namespace fusewire::transport {

class ShmListener final : public Listener {
 public:
  static Result<std::unique_ptr<Listener>> Open(reactor::Reactor& home, const Address& address,
                                                const ShmOptions& options, OnIncoming on_incoming);
  ShmListener(reactor::Reactor& home, Fd fd, const Address& address, const ShmOptions& options, OnIncoming on_incoming);
  ~ShmListener() override;
  Address address() const override { return address_; }

 private:
  class Guest;
  void Receive(Fd fd);
  void OnPacket(Guest* guest);
  static Status OnKnock(Guest* guest, const ShmControlMessage& knock);
  Status OnHello(Guest* guest, Packet hello);
  void TurnAway(Guest* guest, const Status& why);
  void End(Guest* guest);

  reactor::Reactor& home_;
  const Address address_;
  const ShmOptions& options_;
  OnIncoming on_incoming_;
  LogLimiter away_log_{10 * kSecondNs};
  List<Guest> guests_;  // those that have sent no hello yet, the oldest first; ours
  size_t guest_count_ = 0;
  Accepting accepting_;
};

}  // namespace fusewire::transport
