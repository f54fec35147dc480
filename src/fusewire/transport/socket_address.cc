// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/socket_address.h"

#include <linux/sockios.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "fusewire/base/bytes.h"

namespace fusewire::transport {

void Fd::Close() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

bool AllAcknowledged(int fd) {
  int bytes = 0;
  return ioctl(fd, SIOCOUTQ, &bytes) != 0 || bytes == 0;
}

std::string ToText(const SocketAddress& address) {
  char host[INET6_ADDRSTRLEN + 16] = "?";
  char port[16] = "?";
  getnameinfo(address.get(), address.length, host, sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
  return address.storage.ss_family == AF_INET6 ? "[" + std::string(host) + "]:" + port : std::string(host) + ":" + port;
}

bool SameNumber(const sockaddr* one, const sockaddr* other) {
  if (one == nullptr || other == nullptr || one->sa_family != other->sa_family) return false;
  if (one->sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(one)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(other)->sin_addr.s_addr;
  }
  return one->sa_family == AF_INET6 && IN6_ARE_ADDR_EQUAL(&reinterpret_cast<const sockaddr_in6*>(one)->sin6_addr,
                                                          &reinterpret_cast<const sockaddr_in6*>(other)->sin6_addr);
}

uint16_t PortOf(const SocketAddress& address) {
  if (address.storage.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_port);
}

void SetPort(SocketAddress* address, uint16_t port) {
  if (address->storage.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&address->storage)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(&address->storage)->sin_port = htons(port);
  }
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

}  // namespace fusewire::transport
