// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Where a task listens: at the address by which its peers reach it, and nowhere else, as far as that can be told.
// Home: any thread that is not a home: names are asked of the system's resolver, which may block.
// Fails: where it can't be told, it is every interface, with the reason why; a wrong setting of the operator's is an
// error instead.
#pragma once

#include <string>
#include <vector>

#include "fusewire/base/status.h"
#include "fusewire/transport/socket_address.h"

namespace fusewire::transport {

// The addresses of this machine, by interface, and what an operator may call them: "eth0", "10.0.0.0/8".
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

struct ListeningPlace {
  std::string host;  // in numbers; empty: every interface
  std::string why;   // that it is every interface, unless that was asked for
};

// `host`: a number or a name; empty, "*": every interface, as asked. A name stands for the first of its addresses that
// this machine has. Only "localhost" and its numbers mean loopback: another name that resolves to it on this machine
// may resolve to something else on its peers.
ListeningPlace WhereToListen(const std::string& host);
// As an operator says: as above, and "eth0", an interface, or "10.0.0.0/8", a network. A name is an interface's before
// it is a host's. In numbers; "": every interface. Fails if this machine has no such address: another one, or every
// interface, was not allowed.
Result<std::string> ListenAsSaid(const std::string& said);
// Whether this machine has an interface with this name.
bool IsInterface(const std::string& name);
// Whether it is an IPv6 address that only one link knows: fe80::/10.
bool SaysLinkLocal(const std::string& host);
// Whether it means loopback on every machine: "localhost", 127.0.0.0/8, ::1.
bool SaysLoopback(const std::string& host);

}  // namespace fusewire::transport
