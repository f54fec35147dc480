// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cstdint>
#include <cstdlib>

#include "fusewire/base/bytes.h"

namespace fusewire::transport {
namespace {

constexpr size_t kShownMax = 16;  // addresses in an error

struct Number {
  const uint8_t* bytes;
  int bits;
};

Number BitsOf(const SocketAddress& address) {
  if (address.storage.ss_family == AF_INET6) {
    return {reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr.s6_addr, 128};
  }
  return {reinterpret_cast<const uint8_t*>(&reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_addr), 32};
}

bool AgreeInFirst(int bits, const uint8_t* one, const uint8_t* other) {
  for (int i = 0; i < bits; ++i) {
    const int mask = 0x80 >> (i % 8);
    if ((one[i / 8] & mask) != (other[i / 8] & mask)) return false;
  }
  return true;
}

Status NotAsSaid(const std::string& what) { return Status::Invalid(what).Phase("choose an address to listen on"); }

}  // namespace

std::vector<OwnAddress> OwnAddresses() {
  std::vector<OwnAddress> own;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return own;
  for (const ifaddrs* it = all; it != nullptr; it = it->ifa_next) {
    if (it->ifa_addr == nullptr || (it->ifa_flags & IFF_UP) == 0) continue;
    const int family = it->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    OwnAddress one;
    one.interface = it->ifa_name;
    one.address.length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    CopyBytes(Bytes(&one.address.storage, sizeof(one.address.storage)), ConstBytes(it->ifa_addr, one.address.length));
    char text[NI_MAXHOST] = "";
    if (getnameinfo(one.address.get(), one.address.length, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0)
      continue;
    one.number = text;
    own.push_back(std::move(one));
  }
  freeifaddrs(all);
  return own;
}

bool IsLinkLocal(const SocketAddress& address) {
  return address.storage.ss_family == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr);
}

std::string WordsOf(const std::vector<OwnAddress>& own) {
  std::string words;
  for (size_t i = 0; i < own.size() && i < kShownMax; ++i)
    words += (i == 0 ? "" : ", ") + own[i].interface + " " + own[i].number;
  if (own.size() > kShownMax) words += ", ...";
  return words.empty() ? "no address" : words;
}

Result<std::string> AddressOfInterface(const std::string& name, const std::vector<OwnAddress>& own) {
  const OwnAddress* found = nullptr;
  bool is_up = false;
  for (const OwnAddress& one : own) {
    if (one.interface != name) continue;
    is_up = true;
    if (IsLinkLocal(one.address)) continue;
    const bool is_better =
        found == nullptr || (found->address.storage.ss_family == AF_INET6 && one.address.storage.ss_family == AF_INET);
    if (is_better) found = &one;
  }
  if (found != nullptr) return found->number;
  return NotAsSaid("interface " + name +
                   (is_up ? " has only link-local addresses, which other machines can't use without its zone"
                          : " is down, or has no address") +
                   "; this machine has " + WordsOf(own))
      .Next("give " + name + " an address, or name another interface");
}

Result<std::string> AddressInNetwork(const std::string& network, const std::vector<OwnAddress>& own) {
  const size_t slash = network.find('/');
  const std::string length = slash == std::string::npos ? "" : network.substr(slash + 1);
  SocketAddress base;
  const bool is_number =
      !length.empty() && length.size() <= 3 && length.find_first_not_of("0123456789") == std::string::npos;
  if (!is_number || !ParseNumeric(network.substr(0, slash), 0, &base) ||
      std::atoi(length.c_str()) > BitsOf(base).bits) {
    return NotAsSaid("\"" + network + "\" is no network").Next("write it like 10.0.0.0/8 or fd00::/8");
  }
  for (const OwnAddress& one : own) {
    if (one.address.storage.ss_family != base.storage.ss_family || IsLinkLocal(one.address)) continue;
    if (AgreeInFirst(std::atoi(length.c_str()), BitsOf(base).bytes, BitsOf(one.address).bytes)) return one.number;
  }
  return NotAsSaid("no address of this machine is in " + network + "; it has " + WordsOf(own))
      .Next("name a network, an interface or an address that it has");
}

}  // namespace fusewire::transport
