// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/tcp/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string>

namespace fusewire {
namespace transport {
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
  // Before connect and listen, as it limits the connection's window. The kernel uses twice the number
  // that it is given; on a modern kernel, nearly all of that may be payload.
  if (options.receive_buffer_bytes > 0) SetInt(fd.get(), SOL_SOCKET, SO_RCVBUF, options.receive_buffer_bytes / 2);
  if (CongestionControl(fd.get()) == kPaced && IsHere(where)) SetCongestionControl(fd.get(), kUnpaced);
  return fd;
}

void TuneConnected(int fd, const TcpOptions& options) {
  SetInt(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  if (options.unsent_bytes_max > 0) SetInt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, options.unsent_bytes_max);
  SetInt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
         static_cast<int>(std::min<int64_t>(options.user_timeout_ns / kMillisecondNs, INT_MAX)));
  if (!StaysHere(fd)) RestoreCongestionControl(fd);
}

}  // namespace transport
}  // namespace fusewire
