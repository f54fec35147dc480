// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/socket_address.h"

#include <linux/sockios.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "fusewire/base/bytes.h"
#include "fusewire/base/parse.h"
#include "fusewire/transport/address.h"

namespace fusewire::transport {
namespace {

Status Malformed(const std::string& text, const char* why) {
  return Status::Invalid("\"" + text + "\" is not an address: " + why)
      .Phase("read an address")
      .Next("write host:port, [v6 address]:port or :port");
}

bool IsOfNoHost(char letter) {
  const auto code = static_cast<unsigned char>(letter);
  return code <= ' ' || code == 0x7f || letter == '/' || letter == '[' || letter == ']';
}

}  // namespace

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

bool IsLoopback(const SocketAddress& address) {
  if (address.storage.ss_family == AF_INET6) {
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr);
  }
  const auto* in = reinterpret_cast<const sockaddr_in*>(&address.storage);
  return address.storage.ss_family == AF_INET && (ntohl(in->sin_addr.s_addr) >> 24) == 127;
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

// ---- as text ----

Result<Address> Address::Parse(const std::string& text) {
  Address address;
  size_t colon;
  if (!text.empty() && text[0] == '[') {
    size_t end = text.find(']');
    if (end == std::string::npos) return Malformed(text, "the bracket is not closed");
    address.host = text.substr(1, end - 1);
    colon = end + 1;
    if (colon >= text.size() || text[colon] != ':') return Malformed(text, "no port after the bracket");
  } else {
    colon = text.rfind(':');
    if (colon == std::string::npos) return Malformed(text, "no port");
    address.host = text.substr(0, colon);
    if (address.host.find(':') != std::string::npos) return Malformed(text, "an IPv6 address needs brackets");
  }
  if (std::any_of(address.host.begin(), address.host.end(), IsOfNoHost))
    return Malformed(text, "a host has no spaces, slashes, brackets or control characters");
  const std::string digits = text.substr(colon + 1);
  unsigned port = 0;
  if (digits.size() > 5 || !ParseNumber(digits, &port)) return Malformed(text, "the port is not a number");
  if (port > 65535) return Malformed(text, "the port is over 65535");
  address.port = static_cast<uint16_t>(port);
  return address;
}

std::string Address::ToString() const {
  bool is_v6 = host.find(':') != std::string::npos;
  return (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

}  // namespace fusewire::transport
