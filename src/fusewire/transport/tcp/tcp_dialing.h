// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One dial: tries the name's addresses in turn, within one deadline.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fusewire/transport/resolver.h"
#include "fusewire/transport/tcp/socket.h"
#include "fusewire/transport/tcp/tcp_options.h"
#include "fusewire/transport/transport.h"

namespace fusewire::transport {

class TcpDialing final : public Dialing, private reactor::FdHandler {
 public:
  TcpDialing(reactor::Reactor& home, Address address, const TcpOptions& options, OnDialed on_dialed);
  ~TcpDialing() override;
  void Start(Resolver* resolver, int64_t timeout_ns);

 private:
  void OnEvents(uint32_t epoll_events) override;
  void OnNames(Names names);
  void TryNext();
  void Succeed();
  void Finish(Status why);

  reactor::Reactor& home_;
  const Address address_;
  const TcpOptions& options_;
  OnDialed on_dialed_;
  std::vector<std::string> numbers_;
  size_t next_ = 0;
  SocketAddress current_;
  Fd fd_;
  bool watched_ = false;
  int64_t began_ns_ = 0;
  Status last_error_;
  reactor::Timer deadline_;
  reactor::Timer step_;  // tries the next address or ends; never inside a caller's call
  // shared_ptr: the resolver's answer may arrive after our destruction, and must notice that.
  std::shared_ptr<bool> alive_;
};

}  // namespace fusewire::transport
