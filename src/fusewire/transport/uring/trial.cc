// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/uring/trial.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "fusewire/transport/uring/ring.h"

namespace fusewire {
namespace transport {
namespace uring {
namespace {

constexpr int64_t kPatienceNs = 2 * kSecondNs;

Status Wrong(const std::string& what) {
  return Status::Unavailable("io_uring " + what).Phase("try io_uring").Next("go on without it");
}

// Writes at one end of a socket pair, and reads at the other in both ways that connections use.
class Trial final : private RingUser {
 public:
  Trial(std::unique_ptr<Ring> ring, Fd one, Fd other)
      : ring_(std::move(ring)), one_(std::move(one)), other_(std::move(other)) {
    for (size_t i = 0; i < said_.size(); ++i) said_[i] = static_cast<uint8_t>(i * 7 + 1);
  }
  ~Trial() {
    ring_->Abandon(reading_, writing_);
    ring_->Look();
  }
  Status Run(Clock* clock) {
    // A pending read into a buffer of the ring; then the send that it waits for.
    Read(true);
    ring_->HandIn();
    if (ring_->Look()) return Wrong("reads where nothing is");
    Send();
    if (!Await(clock) || !Same(heard_.data(), result_)) return Wrong("loses bytes on their way to a chosen buffer");
    Read(false);
    Send();
    if (!Await(clock) || !Same(landing_.data(), result_)) return Wrong("loses bytes on their way to their place");
    Read(false);
    ring_->HandIn();
    ring_->Cancel(reading_);
    if (!Await(clock) || result_ != -ECANCELED) return Wrong("does not give up a read");
    return Status::Ok();
  }

 private:
  void Send() {
    iovec* from = ring_->Pieces(1);
    *from = {said_.data(), said_.size()};
    sending_.msg_iov = from;
    sending_.msg_iovlen = 1;
    Sqe* sqe = ring_->Order(this, &writing_);
    sqe->opcode = kSendMessage;
    sqe->fd = one_.get();
    sqe->address = reinterpret_cast<uint64_t>(&sending_);
    sqe->length = 1;
    sqe->op_flags = MSG_NOSIGNAL;
  }
  void Read(bool select) {
    Sqe* sqe;
    if (select) {
      sqe = ring_->Order(this, &reading_);
      sqe->opcode = kReceive;
      sqe->flags = kSelectBuffer;
      sqe->length = kBufferBytes;
    } else {
      iovec* into = ring_->Pieces(1);
      *into = {landing_.data(), landing_.size()};
      receiving_.msg_iov = into;
      receiving_.msg_iovlen = 1;
      sqe = ring_->Order(this, &reading_);
      sqe->opcode = kReceiveMessage;
      sqe->address = reinterpret_cast<uint64_t>(&receiving_);
      sqe->length = 1;
    }
    sqe->fd = other_.get();
  }
  void OnOutcome(const Outcome& outcome) override {
    if (outcome.order == writing_) {
      writing_ = Ring::kNone;
      return;
    }
    reading_ = Ring::kNone;
    result_ = outcome.result;
    if ((outcome.flags & kTookBuffer) == 0) return;
    const ConstBytes bytes = ring_->BufferOf(outcome);
    std::copy_n(bytes.data, std::min(bytes.size, heard_.size()), heard_.begin());
  }
  void Arm() override {}
  bool Await(Clock* clock) {
    const int64_t end_ns = AddNs(clock->NowNs(), kPatienceNs);
    while (reading_ != Ring::kNone || writing_ != Ring::kNone) {
      ring_->Look();
      if (clock->NowNs() >= end_ns) return false;
    }
    return true;
  }
  bool Same(const uint8_t* bytes, int result) const {
    return result == static_cast<int>(said_.size()) && std::equal(said_.begin(), said_.end(), bytes);
  }

  const std::unique_ptr<Ring> ring_;
  const Fd one_, other_;
  std::array<uint8_t, 100> said_ = {}, heard_ = {}, landing_ = {};
  msghdr sending_ = {}, receiving_ = {};
  uint32_t reading_ = Ring::kNone, writing_ = Ring::kNone;
  int result_ = 0;
};

Status TestAtHome(reactor::Reactor& home) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    return Status::FromErrno(Code::kOverloaded, "socketpair", errno)
        .Phase("try io_uring")
        .Next("raise the limit of open files (ulimit -n)");
  }
  Fd one(ends[0]), other(ends[1]);
  RingOptions options;
  options.orders = 8;
  options.outcomes = 16;
  options.buffers = 2;
  Result<std::unique_ptr<Ring>> ring = Ring::Make(home, options);
  if (!ring.ok()) return ring.status();
  return Trial(std::move(ring).value(), std::move(one), std::move(other)).Run(home.clock());
}

}  // namespace

Status TestRing(reactor::Reactor& home) {
  Status outcome;
  home.Run([&home, &outcome] { outcome = TestAtHome(home); });
  return outcome;
}

}  // namespace uring
}  // namespace transport
}  // namespace fusewire
