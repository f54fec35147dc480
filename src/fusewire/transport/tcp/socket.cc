// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/tcp/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <climits>

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

}  // namespace

Result<Fd> MakeSocket(int family, const TcpOptions& options) {
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
  return fd;
}

void TuneConnected(int fd, const TcpOptions& options) {
  SetInt(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  if (options.unsent_bytes_max > 0) SetInt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, options.unsent_bytes_max);
  SetInt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
         static_cast<int>(std::min<int64_t>(options.user_timeout_ns / kMillisecondNs, INT_MAX)));
  // If the system's default is BBR, it would pace traffic between tasks of this host with timers. Reno
  // is the only alternative that every process may select.
  constexpr char kUnpaced[] = "reno";
  if (StaysHere(fd)) (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kUnpaced, sizeof(kUnpaced) - 1);
}

}  // namespace transport
}  // namespace fusewire
