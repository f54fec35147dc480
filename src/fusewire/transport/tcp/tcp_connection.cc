// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/tcp/tcp_connection.h"

#include <limits.h>
#include <sys/epoll.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/transport/reading.h"

namespace fusewire::transport {
namespace {

constexpr size_t kPartsMax = IOV_MAX;
// In a long body, input is reported only from this size on. With twice as much, the gain of larger reads is lost
// to a sender that has to wait.
constexpr int kLowWaterBytes = 64 * 1024;
// How often it is looked whether the peer has acknowledged everything: the kernel reports no event for it.
constexpr int64_t kDeliveredLookNs = kMillisecondNs;

}  // namespace

TcpConnection::TcpConnection(reactor::Reactor& home, Fd fd, std::string peer_address)
    : home_(home),
      fd_(std::move(fd)),
      peer_address_(std::move(peer_address)),
      later_([this] { DoLater(); }),
      delivered_([this] {
        if (Delivered()) handler_->OnDelivered();
      }) {}

TcpConnection::~TcpConnection() { Stop(); }

void TcpConnection::Start(ConnectionHandler* handler) {
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_CHECK(handler_ == nullptr);
  handler_ = handler;
  Status watched = home_.Watch(fd_.get(), EPOLLIN | EPOLLRDHUP, this);
  watched_ = watched.ok();
  if (!watched_) Fail(watched);
}

void TcpConnection::OnEvents(uint32_t epoll_events) {
  if ((epoll_events & ~static_cast<uint32_t>(EPOLLOUT)) != 0) ReadSome();
  if (closed_ || (epoll_events & EPOLLOUT) == 0) return;
  full_ = false;
  if (!write_waiting_) {
    WaitForRoom(false);  // no write is waiting: stop watching
    return;
  }
  write_waiting_ = false;
  handler_->OnWritten(0);
}

bool TcpConnection::ReadSome() {
  size_t total = 0;
  while (!closed_ && total < kReadBytesPerTurn) {
    Bytes landing[kLandingPartsMax];
    size_t parts = handler_->Landing(landing, kLandingPartsMax);
    iovec into[kLandingPartsMax + 1];
    size_t landing_bytes = 0;
    for (size_t i = 0; i < parts; ++i) {
      into[i] = {landing[i].data, landing[i].size};
      landing_bytes += landing[i].size;
    }
    into[parts] = {look_ahead, std::min(handler_->LookAhead(), kLookAheadMax)};
    size_t asked = landing_bytes + into[parts].iov_len;
    FUSEWIRE_CHECK(asked > 0);
    ssize_t got =
        parts == 0 ? recv(fd_.get(), look_ahead, asked, 0) : readv(fd_.get(), into, static_cast<int>(parts) + 1);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (got < 0) {
      Fail(Status::FromErrno(Code::kUnavailable, "read", errno));
      return true;
    }
    if (got == 0) {
      Fail(Status::Unavailable("the peer closed the connection"));
      return true;
    }
    auto bytes = static_cast<size_t>(got);
    total += bytes;
    size_t landed = std::min(bytes, landing_bytes);
    if (landed > 0) handler_->OnLanded(landed);
    if (!closed_ && bytes > landed) handler_->OnBytes(ConstBytes(look_ahead, bytes - landed));
    if (bytes < asked) break;  // the socket is empty: another read would only cost a call
  }
  if (total > 0 && !closed_) {
    home_.SetHot(this);
    SetLowWater();
  }
  return total > 0;
}

// In a long body, a wake-up per packet costs both sides more than the copying.
void TcpConnection::SetLowWater() {
  int wanted = handler_->Expected() >= uint64_t{2} * kLowWaterBytes ? kLowWaterBytes : 1;
  if (wanted == low_water_) return;
  low_water_ = wanted;
  (void)setsockopt(fd_.get(), SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof(wanted));
}

void TcpConnection::Write(const ConstBytes* parts, size_t count) {
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_CHECK(!write_waiting_);
  if (closed_) return;  // OnClosed follows
  if (full_) {
    write_waiting_ = true;
    WaitForRoom(true);
    return;
  }
  iovec from[kPartsMax];
  count = std::min(count, kPartsMax);
  size_t offered = 0;
  for (size_t i = 0; i < count; ++i) {
    from[i].iov_base = const_cast<uint8_t*>(parts[i].data);  // sendmsg only reads
    from[i].iov_len = parts[i].size;
    offered += parts[i].size;
  }
  msghdr message = {};
  message.msg_iov = from;
  message.msg_iovlen = count;
  ssize_t sent;
  do {
    sent = sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
    // The peer may have sent the reason before it closed: that is read first.
    write_waiting_ = true;
    broken_ = Status::FromErrno(Code::kUnavailable, "send", errno);
    home_.Arm(&later_, 0);
    return;
  }
  full_ = sent < 0 || static_cast<size_t>(sent) < offered;
  if (sent > 0) {
    handler_->OnWritten(static_cast<size_t>(sent));
    return;
  }
  write_waiting_ = true;
  WaitForRoom(true);
}

// Once requested, room is watched until it is available and no write waits: in a long stream this saves two calls per
// wait.
void TcpConnection::WaitForRoom(bool wait) {
  if (wait == watches_room_) return;
  watches_room_ = wait;
  const uint32_t room = wait ? uint32_t{EPOLLOUT} : 0U;
  home_.Rewatch(fd_.get(), EPOLLIN | EPOLLRDHUP | room, this);
}

bool TcpConnection::Delivered() {
  FUSEWIRE_AT_HOME(home_);
  if (closed_) return false;  // OnClosed follows
  if (AllAcknowledged(fd_.get())) return true;
  if (!delivered_.armed()) home_.Arm(&delivered_, kDeliveredLookNs);
  return false;
}

void TcpConnection::Fail(Status why) { Close(why.Next("check that the peer is running and reachable")); }

void TcpConnection::Close(Status why) {
  FUSEWIRE_AT_HOME(home_);
  if (closed_) return;
  closed_ = true;
  why_closed_ = std::move(why);
  // With unread input, our close would send a reset, which destroys data that the peer has not read yet.
  for (int i = 0; i < 64 && recv(fd_.get(), look_ahead, sizeof(look_ahead), MSG_DONTWAIT) > 0; ++i) {
  }
  Stop();
  if (handler_ != nullptr) home_.Arm(&later_, 0);
}

void TcpConnection::DoLater() {
  if (closed_) {
    handler_->OnClosed(why_closed_);
    return;
  }
  ReadSome();
  Fail(broken_);  // unless reading has found the end
}

void TcpConnection::Stop() {
  reactor::Reactor::Disarm(&delivered_);
  if (watched_) home_.Unwatch(fd_.get(), this);
  watched_ = false;
  fd_.Close();
}

std::unique_ptr<Incoming> TcpConnection::HandOver() {
  FUSEWIRE_AT_HOME(home_);
  if (closed_) return nullptr;
  closed_ = true;
  Fd fd = std::move(fd_);
  if (watched_) home_.Unwatch(fd.get(), this);
  watched_ = false;
  reactor::Reactor::Disarm(&later_);
  return std::make_unique<TcpIncoming>(std::move(fd), peer_address_);
}

}  // namespace fusewire::transport
