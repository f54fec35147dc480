// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/tcp/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string>

namespace fusewire::transport {
namespace {

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
#ifdef SO_BUF_LOCK
constexpr int kBufferLocks = SO_BUF_LOCK;
#else
constexpr int kBufferLocks = 72;  // since Linux 5.14
#endif

// The kernel uses twice the number that it is given; on a modern kernel, nearly all of that may be payload. An
// established connection keeps to the window that it has, unless it is told another.
void HoldUnread(int fd, int bytes_max) {
  SetInt(fd, SOL_SOCKET, SO_RCVBUF, bytes_max / 2);
  SetInt(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, bytes_max);
}

// Begins with what HoldUnread holds, from where the kernel goes on by what the path holds. An older one can't go on
// from there, so it begins with less.
void HoldWhatThePathHolds(int fd) {
  int locks = 0;
  socklen_t length = sizeof(locks);
  if (getsockopt(fd, SOL_SOCKET, kBufferLocks, &locks, &length) != 0) return;
  HoldUnread(fd, kUnreadBytes);
  SetInt(fd, SOL_SOCKET, kBufferLocks, 0);
}

}  // namespace

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
