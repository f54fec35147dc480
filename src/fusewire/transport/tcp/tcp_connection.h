// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One TCP connection on epoll.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "fusewire/base/status.h"
#include "fusewire/transport/socket_address.h"
#include "fusewire/transport/tcp/tcp_options.h"
#include "fusewire/transport/transport.h"

namespace fusewire::transport {

// System calls on TCP sockets, with their errors as a Status.
// A non-blocking socket, with all options that must be set before it connects to this address, or listens at it.
Result<Fd> MakeSocket(const SocketAddress& where, const TcpOptions& options);
// The options of an established connection.
void TuneConnected(int fd, const TcpOptions& options);

class TcpConnection final : public Connection, private reactor::FdHandler {
 public:
  // `fd` is connected and has all options set.
  TcpConnection(reactor::Reactor& home, Fd fd, std::string peer_address);
  ~TcpConnection() override;

  void Start(ConnectionHandler* handler) override;
  void Write(const ConstBytes* parts, size_t count) override;
  bool Delivered() override;
  void Close(Status why) override;
  void Look() override { ReadSome(); }
  std::unique_ptr<Incoming> HandOver() override;
  const std::string& peer_address() const override { return peer_address_; }
  const char* wire() const override { return "tcp"; }

 private:
  void OnEvents(uint32_t epoll_events) override;
  bool PollNow() override { return low_water_ == 1 && ReadSome(); }
  void SetLowWater();
  bool ReadSome();
  void Fail(Status why);
  void WaitForRoom(bool wait);
  void Stop();
  void DoLater();

  reactor::Reactor& home_;
  Fd fd_;
  const std::string peer_address_;
  ConnectionHandler* handler_ = nullptr;
  bool full_ = false;           // the kernel accepted less than offered: wait for room before the next attempt
  bool write_waiting_ = false;  // a Write is unanswered
  bool watches_room_ = false;   // epoll reports room
  bool watched_ = false;
  bool closed_ = false;
  int low_water_ = 1;  // the kernel reports input from this many bytes on
  Status why_closed_;
  Status broken_;             // a send has failed: we read the remaining input, then fail
  reactor::Timer later_;      // for work that must not run inside a caller's call
  reactor::Timer delivered_;  // while OnDelivered is owed
};

// A connected socket with all options set, on its way to the reactor that will drive it.
class TcpIncoming final : public Incoming {
 public:
  TcpIncoming(Fd fd, std::string peer_address) : fd_(std::move(fd)), peer_address_(std::move(peer_address)) {}
  Result<std::unique_ptr<Connection>> Adopt(reactor::Reactor& home) override {
    return std::unique_ptr<Connection>(std::make_unique<TcpConnection>(home, std::move(fd_), peer_address_));
  }
  const std::string& peer_address() const override { return peer_address_; }

 private:
  Fd fd_;
  const std::string peer_address_;
};

}  // namespace fusewire::transport
