// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/socket_name.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace fusewire::observe {

bool SocketName::Set(const std::string& host, uint16_t port) {
  auto* four = reinterpret_cast<sockaddr_in*>(&storage);
  auto* six = reinterpret_cast<sockaddr_in6*>(&storage);
  if (inet_pton(AF_INET, host.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons(port);
    size = sizeof(*four);
    return true;
  }
  if (inet_pton(AF_INET6, host.c_str(), &six->sin6_addr) != 1) return false;
  six->sin6_family = AF_INET6;
  six->sin6_port = htons(port);
  size = sizeof(*six);
  return true;
}

uint16_t SocketName::port() const {
  return ntohs(storage.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in*>(&storage)->sin_port
                                            : reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
}

std::string SocketName::ToString() const {
  char text[INET6_ADDRSTRLEN] = "";
  const std::string end = ":" + std::to_string(port());
  if (storage.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr, text, sizeof(text));
    return text + end;
  }
  const in6_addr& six = reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&six)) {
    inet_ntop(AF_INET, &six.s6_addr[12], text, sizeof(text));
    return text + end;
  }
  inet_ntop(AF_INET6, &six, text, sizeof(text));
  return "[" + std::string(text) + "]" + end;
}

std::string PlaceOf(std::string_view host) {
  const size_t colon = host.rfind(':');
  if (colon == std::string_view::npos || colon < host.rfind(']') + 1) return {};
  const std::string_view digits = host.substr(colon + 1);
  uint16_t port = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (read.ec != std::errc() || read.ptr != digits.data() + digits.size()) return {};
  std::string name(host.substr(0, colon));
  if (name.size() > 2 && name.front() == '[' && name.back() == ']') {
    name = name.substr(1, name.size() - 2);
    name = name.substr(0, name.find('%'));  // the zone is the asker's own name for an interface
  }
  SocketName address;
  if (address.Set(name, port)) return address.ToString();
  if (name.find_first_of("[]") != std::string::npos) return {};
  std::transform(name.begin(), name.end(), name.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  });
  return name + ":" + std::to_string(port);
}

}  // namespace fusewire::observe
