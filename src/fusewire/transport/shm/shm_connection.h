// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One connection over shared memory: two rings, the peer's doorbell, and the socket that says when the peer has gone.
#ifndef FUSEWIRE_TRANSPORT_SHM_SHM_CONNECTION_H_
#define FUSEWIRE_TRANSPORT_SHM_SHM_CONNECTION_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "fusewire/reactor/doorbell.h"
#include "fusewire/transport/shm/meeting.h"
#include "fusewire/transport/shm/ring.h"
#include "fusewire/transport/shm/shm_options.h"
#include "fusewire/transport/transport.h"

namespace fusewire {
namespace transport {

// What a dialler said when it came: kept for as long as its connection may be handed over.
struct ShmOrigin {
  Packet hello;  // with the dialler's doorbell
  bool can_read = false;
  const ShmOptions& options;
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
  // `reader`: how far another home has read; null: nobody has.
  ShmConnection(reactor::Reactor& home, reactor::Doorbell* bell, std::unique_ptr<Segment> segment,
                const ShmOptions& options, std::string peer_address, const RingReader* reader = nullptr);
  ~ShmConnection() override;

  // Before Start.
  uint32_t bit() const { return bit_; }
  void SetSocket(Fd socket, pid_t peer_pid) {
    socket_ = std::move(socket);
    peer_pid_ = peer_pid;
  }
  // Takes the peer's doorbell: from now on it hears of what we write.
  Status Tie(const Fd* files, uint32_t bit);
  // The listener's end: may be handed over, until it writes.
  void SetOrigin(std::unique_ptr<ShmOrigin> origin) {
    origin_ = std::move(origin);
    bells_left_ = 0;
  }
  // The peer's memory can be read: it may lend.
  void SetLender(pid_t pid);

  void Start(ConnectionHandler* handler) override;
  void Write(const ConstBytes* parts, size_t count) override;
  void Close(Status why) override;
  // A Write is answered when all its loans have been read: the reader finds the next one behind it.
  bool TakesMore() const override { return unread_count_ > 0 && unread_count_ < kUnreadMax && !full_; }
  size_t BulkBytes() const override { return 1 << 20; }
  void Look() override { ReadSome(); }
  std::unique_ptr<Incoming> HandOver() override;
  const std::string& peer_address() const override { return peer_address_; }
  const char* wire() const override { return "shm"; }

 private:
  void OnEvents(uint32_t epoll_events) override;
  void OnRung() override;
  bool HasNews() const override { return handler_ != nullptr && !closed_ && reader_.HasNews(); }
  void Watch(bool watches) override { segment_->own().watches.store(watches ? 1 : 0, std::memory_order_seq_cst); }
  void ReadSome();
  size_t ReadOnce(size_t* asked);
  void ReadRest();
  size_t Take(const ConstBytes* parts, size_t count, size_t* offered);
  void Answer();
  void WaitForRoom();
  bool MayLend();
  void ShowPeer();
  void RingPeer();
  void OnBell(Result<Packet> packet);
  void Fail(Status why);
  void Stop();
  void DoLater();

  reactor::Reactor& home_;
  reactor::Doorbell* const bell_;
  std::unique_ptr<Segment> segment_;  // handed over: null
  const bool lend_;
  const uint32_t lend_bytes_min_;
  const std::string peer_address_;
  const uint32_t bit_;
  RingWriter writer_;
  RingReader reader_;
  Fd socket_;
  pid_t peer_pid_ = 0;
  std::unique_ptr<reactor::DoorbellRope> rope_;  // null: the peer has no home yet
  std::unique_ptr<ShmOrigin> origin_;
  int bells_left_ = 2;  // a listener's end has a home, and perhaps one other before it writes
  ConnectionHandler* handler_ = nullptr;
  bool watched_ = false;
  bool peer_reads_ = false;  // it has said that it can read our memory
  bool closed_ = false;
  bool full_ = false;      // the ring took less than it was offered: wait for room before the next try
  bool room_due_ = false;  // a Write waits for room
  // Writes that are answered once the peer has read so many loans.
  struct Unread {
    size_t bytes;
    uint64_t loans;
  };
  static constexpr size_t kUnreadMax = 2;
  Unread unread_[kUnreadMax] = {};
  size_t unread_count_ = 0;
  Status why_closed_;
  reactor::Timer later_;  // what must not happen inside of somebody's call
};

// Any thread. What all connections of this process have written so far.
uint64_t BytesWrittenByAll();

}  // namespace transport
}  // namespace fusewire

#endif  // FUSEWIRE_TRANSPORT_SHM_SHM_CONNECTION_H_
