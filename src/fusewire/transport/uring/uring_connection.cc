// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/uring/uring_connection.h"

#include <limits.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/transport/handed_socket.h"
#include "fusewire/transport/uring/uring.h"

namespace fusewire {
namespace transport {
namespace uring {
namespace {

constexpr size_t kPartsMax = IOV_MAX;
// In the middle of a long body a read is finished by this much; see tcp_connection.cc.
constexpr int kLowWaterBytes = 64 * 1024;
// From here on a send asks the kernel not to copy: two outcomes and pinned pages cost less than the copy.
constexpr size_t kLendBytesMin = 64 * 1024;
// How long a closed connection waits for memory that it lent: for the peer to acknowledge what it was sent.
constexpr int64_t kLentNsMax = kSecondNs;
// After a failed send, reads find the end by themselves. If not, we don't wait for it.
constexpr int64_t kBrokenNsMax = kSecondNs;

}  // namespace

UringConnection::UringConnection(reactor::Reactor& home, Ring& ring, Fd fd, std::string peer_address,
                                 DriveByEpoll otherwise)
    : home_(home),
      ring_(ring),
      fd_(std::move(fd)),
      peer_address_(std::move(peer_address)),
      otherwise_(otherwise),
      without_copy_(ring.sends_without_copy()),
      later_([this] { DoLater(); }) {}

UringConnection::~UringConnection() {
  if (lent_) Break();
  if (reading_ != Ring::kNone || writing_ != Ring::kNone) ring_.Abandon(reading_, writing_);
  ring_.GiveSpare(std::move(ahead_));
}

void UringConnection::Start(ConnectionHandler* handler) {
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_CHECK(handler_ == nullptr);
  handler_ = handler;
  if (!closed_) ring_.ArmLater(this);
}

void UringConnection::OnOutcome(const Outcome& outcome) {
  if (outcome.order == reading_) {
    OnRead(outcome);
  } else if ((outcome.flags & kNotice) != 0) {
    OnNotice(outcome);
  } else {
    OnWrite(outcome);
  }
}

// ---- reading ----

void UringConnection::Arm() {
  if (closed_ || reading_ != Ring::kNone) return;
  Bytes landing[kLandingPartsMax];
  const size_t parts = handler_->Landing(landing, kLandingPartsMax);
  const size_t ahead = std::min(handler_->LookAhead(), kBufferBytes);
  SetLowWater(handler_->Expected() >= uint64_t{2} * kLowWaterBytes ? kLowWaterBytes : 1);
  landing_bytes_ = 0;
  Sqe* sqe;
  if (parts == 0) {
    // Whichever connection has input takes a buffer of the ring's: those that are idle need none.
    sqe = ring_.Order(this, &reading_);
    sqe->opcode = kReceive;
    sqe->flags = kSelectBuffer;
    sqe->length = static_cast<uint32_t>(ahead);
  } else {
    iovec* into = ring_.Pieces(parts + 1);
    for (size_t i = 0; i < parts; ++i) {
      into[i] = {landing[i].data, landing[i].size};
      landing_bytes_ += landing[i].size;
    }
    if (ahead > 0 && ahead_ == nullptr) ahead_ = ring_.TakeSpare();
    into[parts] = {ahead_.get(), ahead};
    read_message_ = {};
    read_message_.msg_iov = into;
    read_message_.msg_iovlen = parts + (ahead > 0 ? 1 : 0);
    sqe = ring_.Order(this, &reading_);
    sqe->opcode = kReceiveMessage;
    sqe->address = reinterpret_cast<uint64_t>(&read_message_);
    sqe->length = 1;
  }
  asked_ = landing_bytes_ + ahead;
  FUSEWIRE_CHECK(asked_ > 0);
  sqe->fd = fd_.get();
  sqe->ioprio = drained_ ? kPollFirst : uint16_t{0};
}

void UringConnection::OnRead(const Outcome& outcome) {
  reading_ = Ring::kNone;
  const int result = outcome.result;
  if (closed_) {
    EndIfDone();
    return;
  }
  // All buffers were taken, or the thread that ordered has ended: once more.
  if (result == -ENOBUFS || result == -ECANCELED || result == -EINTR || result == -EAGAIN) {
    drained_ = false;
    ring_.ArmLater(this);
    return;
  }
  if (result <= 0) {
    Fail(result == 0 ? Status::Unavailable("the peer closed the connection")
                     : Status::FromErrno(Code::kUnavailable, "read", -result));
    return;
  }
  const auto bytes = static_cast<size_t>(result);
  FUSEWIRE_CHECK(bytes <= asked_);
  drained_ = bytes < asked_ && (outcome.flags & kMoreToRead) == 0;
  const size_t landed = std::min(bytes, landing_bytes_);
  const uint8_t* rest = (outcome.flags & kTookBuffer) != 0 ? ring_.BufferOf(outcome).data : ahead_.get();
  if (landed > 0) handler_->OnLanded(landed);
  if (!closed_ && bytes > landed) handler_->OnBytes(ConstBytes(rest, bytes - landed));
  ring_.GiveSpare(std::move(ahead_));
  if (closed_) return;
  ring_.ArmLater(this);
}

void UringConnection::SetLowWater(int wanted) {
  if (wanted == low_water_) return;
  low_water_ = wanted;
  (void)setsockopt(fd_.get(), SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof(wanted));
}

void UringConnection::Look() {
  FUSEWIRE_AT_HOME(home_);
  if (closed_) return;
  SetLowWater(1);  // finishes the read that waits for more
  ring_.Look();
}

// What comes of the read is told later, like any other's: bytes, or that it was cancelled and is to be armed again.
void UringConnection::TakeBackLanding() {
  FUSEWIRE_AT_HOME(home_);
  if (reading_ != Ring::kNone && landing_bytes_ > 0) ring_.Withdraw(reading_);
}

// While its bytes are told, no read is with the kernel.
std::unique_ptr<Incoming> UringConnection::HandOver() {
  FUSEWIRE_AT_HOME(home_);
  if (closed_ || reading_ != Ring::kNone || writing_ != Ring::kNone) return nullptr;
  closed_ = true;
  Unlink();
  reactor::Reactor::Disarm(&later_);
  return std::make_unique<HandedSocket>(std::move(fd_), peer_address_, DriveByUring(), otherwise_);
}

// ---- writing ----

void UringConnection::Write(const ConstBytes* parts, size_t count) {
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_CHECK(writing_ == Ring::kNone);
  if (closed_) return;  // OnClosed is on its way
  count = std::min(count, kPartsMax);
  iovec* from = ring_.Pieces(count);
  size_t offered = 0;
  for (size_t i = 0; i < count; ++i) {
    from[i].iov_base = const_cast<uint8_t*>(parts[i].data);  // the kernel only reads
    from[i].iov_len = parts[i].size;
    offered += parts[i].size;
  }
  write_message_ = {};
  write_message_.msg_iov = from;
  write_message_.msg_iovlen = count;
  const bool lend = without_copy_ && offered >= kLendBytesMin;
  if (lend) ++ring_.stats().lent;
  Sqe* sqe = ring_.Order(this, &writing_);
  sqe->opcode = lend ? kSendMessageZeroCopy : kSendMessage;
  sqe->ioprio = lend ? kReportUsage : uint16_t{0};
  sqe->fd = fd_.get();
  sqe->address = reinterpret_cast<uint64_t>(&write_message_);
  sqe->length = 1;
  sqe->op_flags = MSG_NOSIGNAL;
}

void UringConnection::OnWrite(const Outcome& outcome) {
  const int result = outcome.result;
  if ((outcome.flags & kMoreToCome) != 0) {
    lent_ = true;
    sent_ = static_cast<size_t>(std::max(result, 0));
  } else {
    writing_ = Ring::kNone;
  }
  if (closed_) {
    EndIfDone();
    return;
  }
  if (result >= 0) {
    if (!lent_) handler_->OnWritten(static_cast<size_t>(result));
    return;
  }
  const bool cannot_lend = result == -ENOMEM || result == -ENOBUFS || result == -EOPNOTSUPP || result == -EINVAL;
  if (cannot_lend && without_copy_) {
    without_copy_ = false;
  } else if (result != -ECANCELED && result != -EINTR && result != -EAGAIN) {
    // The peer may have said why before it went: that is read first. The write is never answered.
    broken_ = Status::FromErrno(Code::kUnavailable, "send", -result);
    home_.Arm(&later_, kBrokenNsMax);
    return;
  }
  if (!lent_) handler_->OnWritten(0);
}

// The kernel has given back the memory of a send.
void UringConnection::OnNotice(const Outcome& outcome) {
  writing_ = Ring::kNone;
  lent_ = false;
  // On its way the kernel had to copy all the same, as it does on one machine: then lending only costs.
  if ((static_cast<uint32_t>(outcome.result) & kNoticeCopied) != 0) {
    ++ring_.stats().lent_in_vain;
    without_copy_ = false;
  }
  if (closed_) {
    EndIfDone();
    return;
  }
  if (broken_.ok()) handler_->OnWritten(sent_);
}

// ---- the end ----

void UringConnection::Fail(Status why) { Close(why.Next("check that the peer is running and reachable")); }

void UringConnection::Close(Status why) {
  FUSEWIRE_AT_HOME(home_);
  if (closed_) return;
  closed_ = true;
  why_closed_ = std::move(why);
  Unlink();
  ring_.HandIn();  // a write that was taken is still delivered
  if (!lent_) ring_.Cancel(writing_);
  ring_.Cancel(reading_);
  ring_.HandIn();
  reactor::Reactor::Disarm(&later_);
  if (lent_) home_.Arm(&later_, kLentNsMax);
  EndIfDone();
}

// Once the kernel holds nothing of ours, the descriptor goes; OnClosed follows.
void UringConnection::EndIfDone() {
  if (reading_ != Ring::kNone || writing_ != Ring::kNone || !fd_.valid()) return;
  // Unread input would turn our close into a reset, and a reset destroys what the peer has not read yet.
  if (!reset_) {
    uint8_t unread[kBufferBytes];
    for (int i = 0; i < 64 && recv(fd_.get(), unread, sizeof(unread), MSG_DONTWAIT) > 0; ++i) {
    }
  }
  fd_.Close();
  reactor::Reactor::Disarm(&later_);
  if (handler_ != nullptr) home_.Arm(&later_, 0);
}

void UringConnection::DoLater() {
  if (!closed_) {
    Fail(broken_);
  } else if (fd_.valid()) {
    Break();
  } else {
    handler_->OnClosed(why_closed_);
  }
}

// What the peer has not acknowledged is dropped, and with it the kernel's hold on our memory.
void UringConnection::Break() {
  reset_ = true;
  sockaddr nowhere = {};
  nowhere.sa_family = AF_UNSPEC;
  (void)connect(fd_.get(), &nowhere, sizeof(nowhere));
}

}  // namespace uring
}  // namespace transport
}  // namespace fusewire
