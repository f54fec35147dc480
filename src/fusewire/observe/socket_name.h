// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The address and port of a socket, of either family, and how a request names one.
// Home: any thread, plain values. Fails: Set with false, FromHost with nothing.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace fusewire::observe {

struct SocketName {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);

  // False: `host` is no address.
  bool Set(const std::string& host, uint16_t port);
  uint16_t port() const;
  // "10.0.0.7:9477", "[::1]:9477". An IPv4 address is one, even if an IPv6 socket says it.
  std::string ToString() const;
};

// "HOST:PORT" of a Host header as ToString() writes it, so that equal places are equal texts; a name in small letters.
// Empty: there is no port, which would be HTTP's.
std::string PlaceOf(std::string_view host);

}  // namespace fusewire::observe
