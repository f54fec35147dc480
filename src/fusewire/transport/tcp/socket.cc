// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/tcp/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace fusewire {
namespace transport {
namespace {

// Options tune; a kernel that refuses one still carries our bytes.
void SetInt(int fd, int level, int name, int value) { (void)setsockopt(fd, level, name, &value, sizeof(value)); }

}  // namespace

void Fd::Close() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

std::string ToText(const SocketAddress& address) {
  char host[INET6_ADDRSTRLEN + 16] = "?";
  char port[16] = "?";
  getnameinfo(address.get(), address.length, host, sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
  return address.storage.ss_family == AF_INET6 ? "[" + std::string(host) + "]:" + port : std::string(host) + ":" + port;
}

uint16_t PortOf(const SocketAddress& address) {
  if (address.storage.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_port);
}

bool ParseNumeric(const std::string& host, uint16_t port, SocketAddress* out) {
  addrinfo hints = {};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return false;
  CopyBytes(Bytes(&out->storage, sizeof(out->storage)), ConstBytes(found->ai_addr, found->ai_addrlen));
  out->length = found->ai_addrlen;
  freeaddrinfo(found);
  return true;
}

Result<Fd> MakeSocket(int family, const TcpOptions& options) {
  Fd fd(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) {
    bool out_of_files = errno == EMFILE || errno == ENFILE;
    return Status::FromErrno(out_of_files ? Code::kOverloaded : Code::kUnavailable, "socket", errno)
        .Next(out_of_files ? "raise the limit of open files (ulimit -n)"
                           : "check that this host has this kind of network");
  }
  // Before connect and listen: it decides how large a window the connection can have. The kernel takes twice the number
  // that it is given, and on a modern one nearly all of that may be payload.
  if (options.receive_buffer_bytes > 0) SetInt(fd.get(), SOL_SOCKET, SO_RCVBUF, options.receive_buffer_bytes / 2);
  return fd;
}

void TuneConnected(int fd, const TcpOptions& options) {
  SetInt(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  if (options.unsent_bytes_max > 0) SetInt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, options.unsent_bytes_max);
  SetInt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
         static_cast<int>(std::min<int64_t>(options.user_timeout_ns / kMillisecondNs, INT_MAX)));
}

}  // namespace transport
}  // namespace fusewire
