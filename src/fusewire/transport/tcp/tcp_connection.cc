// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/tcp/tcp_connection.h"

#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>

#include "fusewire/base/check.h"

namespace fusewire::transport {
namespace {

constexpr size_t kPartsMax = IOV_MAX;
// In a long body, input is reported only from this size on. With twice as much, the gain of larger reads is lost
// to a sender that has to wait.
constexpr int kLowWaterBytes = 64 * 1024;
// How often to check whether the peer has acknowledged everything: the kernel reports no event for it.
constexpr int64_t kDeliveredLookNs = kMillisecondNs;

// Options tune; a kernel that refuses one still carries our bytes.
void SetInt(int fd, int level, int name, int value) { (void)setsockopt(fd, level, name, &value, sizeof(value)); }

// Both ends have the same address: there is no network between them.
bool StaysHere(int fd) {
  SocketAddress own, peer;
  own.length = peer.length = sizeof(sockaddr_storage);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&own.storage), &own.length) != 0 ||
      getpeername(fd, reinterpret_cast<sockaddr*>(&peer.storage), &peer.length) != 0)
    return false;
  return SameNumber(own.get(), peer.get());
}

// One of the addresses of this host, or all of them.
bool IsHere(SocketAddress address) {
  SetPort(&address, 0);
  const Fd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return fd.valid() && bind(fd.get(), address.get(), address.length) == 0;
}

// BBR paces what it sends with timers, which costs traffic between tasks of one host up to a fifth of its time. A
// socket that has begun with it is paced for good, whatever is chosen afterwards; so those that may stay here begin
// without it. Reno is the only other one that every process may choose.
constexpr char kPaced[] = "bbr";
constexpr char kUnpaced[] = "reno";

std::string CongestionControl(int fd) {
  char name[32] = "";
  socklen_t length = sizeof(name) - 1;
  return getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0 ? name : "";
}

void SetCongestionControl(int fd, const std::string& name) {
  (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size()));
}

// Of a connection that leaves this host: a listener's choice was made for those that do not.
void RestoreCongestionControl(int fd) {
  if (CongestionControl(fd) != kUnpaced) return;
  const Fd fresh(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const std::string chosen = fresh.valid() ? CongestionControl(fresh.get()) : "";
  if (chosen == kPaced) SetCongestionControl(fd, chosen);
}

constexpr int kUnreadBytes = 608 * 1024;
// 10 ms at 50 Gbit/s.
constexpr int kUnderWayBytes = 64 << 20;
constexpr int kSendLock = 1;  // SOCK_SNDBUF_LOCK
#ifdef SO_BUF_LOCK
constexpr int kBufferLocks = SO_BUF_LOCK;
#else
constexpr int kBufferLocks = 72;  // since Linux 5.14
#endif

// The kernel uses twice the number that it is given; on a modern kernel, nearly all of that may be payload. An
// established connection keeps the window that it has, unless another one is set.
void HoldUnread(int fd, int bytes_max) {
  SetInt(fd, SOL_SOCKET, SO_RCVBUF, bytes_max / 2);
  SetInt(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, bytes_max);
}

// How many bytes in flight the kernel allows a connection by default; 0: unknown.
int AutomaticBytes() {
  static const int bytes = [] {
    FILE* file = std::fopen("/proc/sys/net/ipv4/tcp_wmem", "re");
    int bytes_max = 0;
    if (file == nullptr || std::fscanf(file, "%*d %*d %d", &bytes_max) != 1) bytes_max = 0;
    if (file != nullptr) std::fclose(file);
    return bytes_max;
  }();
  return bytes;
}

// Fills a path that holds more than the kernel's default, usually 4 MiB, where net.core.wmem_max permits more:
// otherwise a message that is a little larger takes a second round trip. This costs memory only for what is under way:
// unsent bytes have their own limit (TcpOptions). True: it is held, and the kernel must not choose.
bool HoldUnderWay(int fd) {
  if (AutomaticBytes() == 0) return false;
  SetInt(fd, SOL_SOCKET, SO_SNDBUF, kUnderWayBytes / 2);
  int bytes = 0;
  socklen_t length = sizeof(bytes);
  return getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, &length) == 0 && bytes > AutomaticBytes();
}

// Begins with what HoldUnread holds, from where the kernel goes on by what the path holds. An older one can't go on
// from there, so it begins with less.
void HoldWhatThePathHolds(int fd) {
  int locks = 0;
  socklen_t length = sizeof(locks);
  if (getsockopt(fd, SOL_SOCKET, kBufferLocks, &locks, &length) != 0) return;
  HoldUnread(fd, kUnreadBytes);
  SetInt(fd, SOL_SOCKET, kBufferLocks, HoldUnderWay(fd) ? kSendLock : 0);
}

// Most writes are a single part, and for that `send` is faster than `sendmsg`.
ssize_t SendParts(int fd, const ConstBytes* parts, size_t count) {
  FUSEWIRE_DCHECK(count <= kPartsMax);
  constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
  if (count == 1) return send(fd, parts->data, parts->size, kFlags);
  iovec from[kPartsMax];
  for (size_t i = 0; i < count; ++i) {
    from[i] = {const_cast<uint8_t*>(parts[i].data), parts[i].size};  // sendmsg only reads
  }
  msghdr message = {};
  message.msg_iov = from;
  message.msg_iovlen = count;
  return sendmsg(fd, &message, kFlags);
}

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
  count = std::min(count, kPartsMax);
  size_t offered = 0;
  for (size_t i = 0; i < count; ++i) offered += parts[i].size;
  ssize_t sent;
  do {
    sent = SendParts(fd_.get(), parts, count);
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

// ---- sockets ----

Result<Fd> MakeSocket(const SocketAddress& where, const TcpOptions& options) {
  const int family = where.storage.ss_family;
  Fd fd(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) {
    bool out_of_files = errno == EMFILE || errno == ENFILE;
    return Status::FromErrno(out_of_files ? Code::kOverloaded : Code::kUnavailable, "socket", errno)
        .Next(out_of_files ? "raise the limit of open files (ulimit -n)"
                           : "check that this host has this kind of network");
  }
  // Before connect and listen, as it decides how large a window the connection can name.
  if (options.receive_buffer_bytes > 0) HoldUnread(fd.get(), options.receive_buffer_bytes);
  if (CongestionControl(fd.get()) == kPaced && IsHere(where)) SetCongestionControl(fd.get(), kUnpaced);
  return fd;
}

void TuneConnected(int fd, const TcpOptions& options) {
  SetInt(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  if (options.unsent_bytes_max > 0) SetInt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, options.unsent_bytes_max);
  SetInt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
         static_cast<int>(std::min<int64_t>(options.user_timeout_ns / kMillisecondNs, INT_MAX)));
  const bool stays = StaysHere(fd);
  if (!stays) RestoreCongestionControl(fd);
  if (options.receive_buffer_bytes > 0) return;
  if (stays) {
    HoldUnread(fd, kUnreadBytes);
  } else {
    HoldWhatThePathHolds(fd);
  }
}

}  // namespace fusewire::transport
