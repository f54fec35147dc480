// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One end of a loopback connection. Fulfils the contract of transport.h, and no more than that:
// it splits, delays and answers late wherever the contract permits it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/transport/transport.h"
#include "loopback/network.h"
#include "loopback/stream.h"

namespace fusewire::transport {

// One end's handle of the two streams. Destroying it ends both, as closing a socket does.
class LoopbackEnd {
 public:
  // shared_ptr: the other end and pending events hold the streams as well.
  LoopbackEnd(std::shared_ptr<Stream> in, std::shared_ptr<Stream> out) : in_(std::move(in)), out_(std::move(out)) {}
  LoopbackEnd(LoopbackEnd&&) = default;
  LoopbackEnd& operator=(LoopbackEnd&&) = delete;
  ~LoopbackEnd();
  Stream& in() { return *in_; }
  Stream& out() { return *out_; }

 private:
  // shared_ptr: as above.
  std::shared_ptr<Stream> in_, out_;
};

// An end that is moving between two homes.
class LoopbackIncoming final : public Incoming {
 public:
  LoopbackIncoming(Network* network, LoopbackEnd end, std::string peer_address)
      : network_(network), end_(std::move(end)), peer_address_(std::move(peer_address)) {}
  Result<std::unique_ptr<Connection>> Adopt(reactor::Reactor& home) override;
  const std::string& peer_address() const override { return peer_address_; }

 private:
  Network* const network_;
  LoopbackEnd end_;
  const std::string peer_address_;
};

class LoopbackConnection final : public Connection {
 public:
  LoopbackConnection(Network* network, reactor::Reactor& home, LoopbackEnd end, std::string peer_address);
  ~LoopbackConnection() override;

  void Start(ConnectionHandler* handler) override;
  void Write(const ConstBytes* parts, size_t count) override;
  void Close(Status why) override;
  std::unique_ptr<Incoming> HandOver() override;
  const std::string& peer_address() const override { return peer_address_; }
  const char* wire() const override { return "loopback"; }

 private:
  void PostRead();
  void ReadSome();
  bool ReadOnce();
  void PostRoom();
  void OnRoom();
  size_t Take(const ConstBytes* parts, size_t count);
  void Fail(Status why);

  Network* const network_;
  reactor::Reactor& home_;
  LoopbackEnd end_;
  const std::string peer_address_;
  ConnectionHandler* handler_ = nullptr;
  bool read_posted_ = false;
  bool room_posted_ = false;
  bool full_ = false;              // less was accepted than offered: wait for room before the next attempt
  bool write_waiting_ = false;     // a Write is unanswered
  std::vector<ConstBytes> later_;  // the parts of a late Write, whose memory is read when it is answered
  bool closed_ = false;
  Status why_closed_;
  reactor::Timer tell_closed_;
  // shared_ptr: our own mail may arrive after our destruction, and must notice that.
  std::shared_ptr<bool> alive_;
};

}  // namespace fusewire::transport
