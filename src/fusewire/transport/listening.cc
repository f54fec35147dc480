// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/listening.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cstdint>

#include "fusewire/base/bytes.h"
#include "fusewire/base/parse.h"

namespace fusewire::transport {
namespace {

// Asks the kernel, which knows of namespaces, of routes to whole nets, and of families that are turned off.
bool MayBind(const SocketAddress& address) {
  Fd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return fd.valid() && bind(fd.get(), address.get(), address.length) == 0;
}

// In numbers, with the zone of a link-local one.
std::string NumberWithZone(const SocketAddress& address) {
  char text[NI_MAXHOST] = "";
  getnameinfo(address.get(), address.length, text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  return text;
}

std::vector<SocketAddress> Resolve(const std::string& host, std::string* why) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  std::vector<SocketAddress> addresses;
  int failed = getaddrinfo(host.c_str(), "0", &hints, &found);
  if (failed != 0) {
    *why = host + " has no address here: " + gai_strerror(failed);
    return addresses;
  }
  for (const addrinfo* it = found; it != nullptr; it = it->ai_next) {
    SocketAddress address;
    CopyBytes(Bytes(&address.storage, sizeof(address.storage)), ConstBytes(it->ai_addr, it->ai_addrlen));
    address.length = it->ai_addrlen;
    addresses.push_back(address);
  }
  freeaddrinfo(found);
  return addresses;
}

// IPv4 first: clients try both families.
ListeningPlace Loopback() {
  SocketAddress address;
  bool has_ipv4 = ParseNumeric("127.0.0.1", 0, &address) && MayBind(address);
  return ListeningPlace{has_ipv4 ? "127.0.0.1" : "::1", ""};
}

constexpr size_t kShownMax = 16;  // addresses in an error

struct Number {
  const uint8_t* bytes;
  unsigned bits;
};

Number BitsOf(const SocketAddress& address) {
  if (address.storage.ss_family == AF_INET6) {
    return {reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr.s6_addr, 128};
  }
  return {reinterpret_cast<const uint8_t*>(&reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_addr), 32};
}

bool AgreeInFirst(unsigned bits, const uint8_t* one, const uint8_t* other) {
  for (unsigned i = 0; i < bits; ++i) {
    const int mask = 0x80 >> (i % 8);
    if ((one[i / 8] & mask) != (other[i / 8] & mask)) return false;
  }
  return true;
}

Status NotAsSaid(const std::string& what) { return Status::Invalid(what).Phase("choose an address to listen on"); }

}  // namespace

bool SaysLoopback(const std::string& host) {
  if (host.empty() || host == "*") return false;  // the system's resolver takes these for loopback
  SocketAddress address;
  return host == "localhost" || (ParseNumeric(host, 0, &address) && IsLoopback(address));
}

bool IsInterface(const std::string& name) { return !name.empty() && if_nametoindex(name.c_str()) != 0; }

bool SaysLinkLocal(const std::string& host) {
  SocketAddress address;
  return !host.empty() && ParseNumeric(host, 0, &address) && IsLinkLocal(address);
}

ListeningPlace WhereToListen(const std::string& host) {
  if (host.empty() || host == "*") return ListeningPlace();
  if (host == "localhost") return Loopback();
  SocketAddress number;
  if (ParseNumeric(host, 0, &number)) {
    if (MayBind(number)) return ListeningPlace{host, ""};
    return ListeningPlace{"", host + " is not an address of this machine"};
  }
  std::string why;
  bool is_loopback = false;
  for (const SocketAddress& address : Resolve(host, &why)) {
    if (IsLoopback(address)) {
      is_loopback = true;
    } else if (MayBind(address)) {
      return ListeningPlace{NumberWithZone(address), ""};
    }
  }
  if (!why.empty()) return ListeningPlace{"", why};
  return ListeningPlace{"", host + (is_loopback ? " is a loopback address to this machine, and perhaps not to others"
                                                : " leads to no address of this machine")};
}

Result<std::string> ListenAsSaid(const std::string& said) {
  if (IsInterface(said)) return AddressOfInterface(said, OwnAddresses());
  if (said.find('/') != std::string::npos) return AddressInNetwork(said, OwnAddresses());
  if (SaysLinkLocal(said)) {
    return Status::Invalid(said + " is a link-local address, which other machines can't use without a zone")
        .Phase("choose an address to listen on")
        .Next("name a global address, or an interface that has one");
  }
  ListeningPlace place = WhereToListen(said);
  if (place.why.empty()) return std::move(place.host);
  const std::string own = WordsOf(OwnAddresses());
  SocketAddress number;
  const bool is_name = !ParseNumeric(said, 0, &number);
  return Status::Invalid((is_name ? said + " is not an interface of this machine, and as a name: " : "") + place.why +
                         "; it has " + own)
      .Phase("choose an address to listen on")
      .Next("name an interface, a network like 10.0.0.0/8 or an address that it has; * for every interface");
}

// ---- the addresses of this machine ----

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
    one.number = NumberWithZone(one.address);
    if (one.number.empty()) continue;
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
  unsigned bits = 0;
  if (length.size() > 3 || !ParseNumber(length, &bits) || !ParseNumeric(network.substr(0, slash), 0, &base) ||
      bits > BitsOf(base).bits) {
    return NotAsSaid("\"" + network + "\" is not a network").Next("write it like 10.0.0.0/8 or fd00::/8");
  }
  for (const OwnAddress& one : own) {
    if (one.address.storage.ss_family != base.storage.ss_family || IsLinkLocal(one.address)) continue;
    if (AgreeInFirst(bits, BitsOf(base).bytes, BitsOf(one.address).bytes)) return one.number;
  }
  return NotAsSaid("no address of this machine is in " + network + "; it has " + WordsOf(own))
      .Next("name a network, an interface or an address that it has");
}

}  // namespace fusewire::transport
