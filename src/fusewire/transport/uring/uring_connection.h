// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One TCP connection on its home's io_uring. At most one read and one write are with the kernel.
#ifndef FUSEWIRE_TRANSPORT_URING_URING_CONNECTION_H_
#define FUSEWIRE_TRANSPORT_URING_URING_CONNECTION_H_

#include <sys/socket.h>

#include <memory>
#include <string>

#include "fusewire/transport/drive.h"
#include "fusewire/transport/transport.h"
#include "fusewire/transport/uring/ring.h"

namespace fusewire {
namespace transport {
namespace uring {

class UringConnection final : public Connection, private RingUser {
 public:
  // `fd` is connected and has all options set; `ring` is the home's.
  UringConnection(reactor::Reactor& home, Ring& ring, Fd fd, std::string peer_address, DriveByEpoll otherwise);
  ~UringConnection() override;

  void Start(ConnectionHandler* handler) override;
  void Write(const ConstBytes* parts, size_t count) override;
  bool Delivered() const override { return AllAcknowledged(fd_.get()); }
  void Close(Status why) override;
  void Look() override;
  void TakeBackLanding() override;
  std::unique_ptr<Incoming> HandOver() override;
  const std::string& peer_address() const override { return peer_address_; }
  const char* wire() const override { return "uring"; }

 private:
  void Arm() override;
  void OnOutcome(const Outcome& outcome) override;
  void OnRead(const Outcome& outcome);
  void OnWrite(const Outcome& outcome);
  void OnNotice(const Outcome& outcome);
  void SetLowWater(int wanted);
  void Fail(Status why);
  void Break();
  void DoLater();
  void EndIfDone();

  reactor::Reactor& home_;
  Ring& ring_;
  Fd fd_;
  const std::string peer_address_;
  const DriveByEpoll otherwise_;
  ConnectionHandler* handler_ = nullptr;
  uint32_t reading_ = Ring::kNone, writing_ = Ring::kNone;  // orders that are with the kernel
  msghdr read_message_ = {}, write_message_ = {};
  std::unique_ptr<uint8_t[]> ahead_;  // for bytes after the landing
  size_t landing_bytes_ = 0, asked_ = 0;
  bool drained_ = false;       // the last read emptied the socket: wait before the next
  bool without_copy_ = false;  // large sends lend their memory to the kernel
  bool lent_ = false;          // the write is done, but the kernel still holds its memory
  size_t sent_ = 0;            // of a write whose memory is lent
  bool closed_ = false;
  bool reset_ = false;
  int low_water_ = 1;  // the kernel completes a read from this many bytes on
  Status why_closed_;
  Status broken_;         // a send has failed: we read the remaining input, then fail
  reactor::Timer later_;  // for work that must not run inside a caller's call
};

}  // namespace uring
}  // namespace transport
}  // namespace fusewire

#endif  // FUSEWIRE_TRANSPORT_URING_URING_CONNECTION_H_
