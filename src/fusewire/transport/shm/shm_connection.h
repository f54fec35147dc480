// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One connection over shared memory: what it writes and reads, and the socket that tells when the peer has gone. It
// steers: the sender knows which Writes are unanswered, the reader of the ring where the stream is, and PeerBell how to
// wake the peer.
// Home: one reactor, until it is handed over. Owns: the segment and the socket. Fails: as in transport.h.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/reactor/doorbell.h"
#include "fusewire/transport/shm/control_message.h"
#include "fusewire/transport/shm/ring.h"
#include "fusewire/transport/shm/shm_sender.h"
#include "fusewire/transport/transport.h"

namespace fusewire::transport {

// The first packet of a dialler: kept for as long as its connection may be handed over.
struct ShmOrigin {
  Packet hello;  // with the dialler's doorbell
  bool can_read = false;
  bool lend = false;
};

// A connection between two homes, or before its first.
class ShmIncoming final : public Incoming {
 public:
  ShmIncoming(Fd socket, std::unique_ptr<Segment> segment, std::unique_ptr<ShmOrigin> origin, pid_t peer_pid);
  Result<std::unique_ptr<Connection>> Adopt(reactor::Reactor& home) override;
  const std::string& peer_address() const override { return peer_address_; }
  // How far the last home has read.
  void SetReader(const RingReader& reader) { reader_.emplace(reader); }

 private:
  Fd socket_;
  std::unique_ptr<Segment> segment_;
  std::unique_ptr<ShmOrigin> origin_;
  std::optional<RingReader> reader_;
  const pid_t peer_pid_;
  const std::string peer_address_;
};

class ShmConnection final : public Connection, private reactor::FdHandler, private reactor::DoorbellHandler {
 public:
  // `reader`: how far another home has read; null: none has.
  ShmConnection(reactor::Reactor& home, reactor::Doorbell* bell, std::unique_ptr<Segment> segment, bool lend,
                std::string peer_address, const RingReader* reader = nullptr);
  ~ShmConnection() override;

  // Before Start.
  uint32_t bit() const { return bit_; }
  void SetSocket(Fd socket, pid_t peer_pid) {
    FUSEWIRE_CHECK(handler_ == nullptr);
    socket_ = std::move(socket);
    peer_pid_ = peer_pid;
  }
  // The listener's end: takes the dialler's doorbell, and may be handed over until it writes.
  Status SetOrigin(std::unique_ptr<ShmOrigin> origin);
  // The peer's memory can be read: it may lend.
  void SetLender(pid_t pid);

  void Start(ConnectionHandler* handler) override;
  void Write(const ConstBytes* parts, size_t count) override;
  void Close(Status why) override;
  bool TakesMore() const override { return sender_.TakesMore(); }
  size_t BulkBytes() const override { return 1 << 20; }
  void Look() override { ReadSome(); }
  std::unique_ptr<Incoming> HandOver() override;
  const std::string& peer_address() const override { return peer_address_; }
  const char* wire() const override { return "shm"; }

 private:
  void OnEvents(uint32_t epoll_events) override;
  void OnRung() override;
  bool HasNews() const override { return handler_ != nullptr && !closed() && reader_.HasNews(); }
  void Watch(bool watches) override { segment_->own().watches.store(watches ? 1 : 0, std::memory_order_seq_cst); }
  bool closed() const { return !why_closed_.ok(); }
  void ReadSome();
  size_t ReadOnce(size_t* asked);
  void ReadRest();
  void Answer();
  void OnBell(Result<Packet> packet);
  void Fail(Status why);
  void Stop();
  void DoLater();

  reactor::Reactor& home_;
  reactor::Doorbell* const bell_;
  std::unique_ptr<Segment> segment_;  // handed over: null
  const std::string peer_address_;
  const uint32_t bit_;
  PeerBell peer_bell_;
  ShmSender sender_;
  RingReader reader_;
  Fd socket_;
  pid_t peer_pid_ = 0;
  std::unique_ptr<ShmOrigin> origin_;
  ConnectionHandler* handler_ = nullptr;
  bool watched_ = false;
  Status why_closed_;     // ok: it is not
  reactor::Timer later_;  // what must not happen inside of a call to us
};

}  // namespace fusewire::transport
