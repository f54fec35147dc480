// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The addresses of this machine, by interface, and what an operator may call them: "eth0", "10.0.0.0/8".
// Home: any thread. Owns: plain values. Fails: an operator's word that names no address here, with the words that
// would.
#pragma once

#include <string>
#include <vector>

#include "fusewire/base/status.h"
#include "fusewire/transport/socket_address.h"

namespace fusewire::transport {

struct OwnAddress {
  std::string interface;  // "eth0"
  std::string number;     // "10.0.0.7"; a link-local one has its zone: "fe80::1%eth0"
  SocketAddress address;
};

// Of all interfaces that are up, in the kernel's order.
std::vector<OwnAddress> OwnAddresses();
// An IPv6 address that only one link knows: each machine writes it with a zone of its own.
bool IsLinkLocal(const SocketAddress& address);

// Of an interface, the first address that other machines can use: IPv4 before IPv6, no link-local one.
Result<std::string> AddressOfInterface(const std::string& name, const std::vector<OwnAddress>& own);
// The first address within "10.0.0.0/8" or "fd00::/8".
Result<std::string> AddressInNetwork(const std::string& network, const std::vector<OwnAddress>& own);
// "eth0 10.0.0.7, lo 127.0.0.1", for errors.
std::string WordsOf(const std::vector<OwnAddress>& own);

}  // namespace fusewire::transport
