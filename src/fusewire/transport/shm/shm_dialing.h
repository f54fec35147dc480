// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One attempt to meet a task of this machine: the places where it may be met in turn, within one deadline.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fusewire/transport/resolver.h"
#include "fusewire/transport/shm/peer_process.h"
#include "fusewire/transport/shm/shm_connection.h"
#include "fusewire/transport/transport.h"

namespace fusewire::transport {

class ShmDialing final : public Dialing, private reactor::FdHandler {
 public:
  ShmDialing(reactor::Reactor& home, Address address, const ShmOptions& options, OnDialed on_dialed);
  ~ShmDialing() override;
  void Start(Resolver* resolver, int64_t timeout_ns);

 private:
  void OnEvents(uint32_t epoll_events) override;
  void OnNames(const Names& names);
  void TryNext();
  Status Connect();
  Status TakeKnock(const Packet& knock);
  void TakeWelcome(const ShmControlMessage& welcome);
  Status SayHello(uint64_t answer);
  void Drop();
  void Finish(Status why);

  reactor::Reactor& home_;
  const Address address_;
  const ShmOptions& options_;
  OnDialed on_dialed_;
  std::vector<UnixAddress> places_;
  size_t next_ = 0;
  std::string number_;  // of the host, for words
  Fd socket_;
  bool watched_ = false;
  PeerProcess process_;
  uint64_t nonce_ = 0;
  std::unique_ptr<ShmConnection> connection_;  // from our hello on
  int64_t began_ns_ = 0;
  Status last_error_;
  reactor::Timer deadline_;
  reactor::Timer step_;  // the next place, or the end: never from inside a call to us
  // shared_ptr: the resolver's answer may come after we are gone, and must find out.
  std::shared_ptr<bool> alive_;
};

}  // namespace fusewire::transport
