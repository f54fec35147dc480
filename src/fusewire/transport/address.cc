// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/address.h"

#include <algorithm>
#include <cstdlib>

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

Result<Address> Address::Parse(const std::string& text) {
  Address address;
  size_t colon;
  if (!text.empty() && text[0] == '[') {
    size_t end = text.find(']');
    if (end == std::string::npos) return Malformed(text, "the bracket is not closed");
    address.host = text.substr(1, end - 1);
    colon = end + 1;
    if (colon >= text.size() || text[colon] != ':') return Malformed(text, "no port behind the bracket");
  } else {
    colon = text.rfind(':');
    if (colon == std::string::npos) return Malformed(text, "no port");
    address.host = text.substr(0, colon);
    if (address.host.find(':') != std::string::npos) return Malformed(text, "an IPv6 address needs brackets");
  }
  if (std::any_of(address.host.begin(), address.host.end(), IsOfNoHost))
    return Malformed(text, "a host has no spaces, slashes, brackets or control characters");
  std::string digits = text.substr(colon + 1);
  if (digits.empty() || digits.size() > 5 || digits.find_first_not_of("0123456789") != std::string::npos) {
    return Malformed(text, "the port is not a number");
  }
  int port = std::atoi(digits.c_str());
  if (port > 65535) return Malformed(text, "the port is over 65535");
  address.port = static_cast<uint16_t>(port);
  return address;
}

std::string Address::ToString() const {
  bool is_v6 = host.find(':') != std::string::npos;
  return (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

}  // namespace fusewire::transport
