// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/tcp/tcp_listener.h"

#include <netinet/in.h>

#include <cerrno>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/transport/listening.h"
#include "fusewire/transport/tcp/tcp_connection.h"

namespace fusewire::transport {
namespace {

constexpr int kNeighboursTried = 16;

// *no_such_family: this host has no IPv6 (or no IPv4).
Result<Fd> BindAndListen(const SocketAddress& where, const TcpOptions& options, bool* no_such_family) {
  Result<Fd> made = MakeSocket(where, options);
  *no_such_family = !made.ok() && made.status().code() == Code::kUnavailable;
  if (!made.ok()) return made;
  Fd fd = std::move(made).value();
  int on = 1, off = 0;
  (void)setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (where.storage.ss_family == AF_INET6) (void)setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  if (bind(fd.get(), where.get(), where.length) != 0 || listen(fd.get(), options.backlog) != 0) {
    int error = errno;
    *no_such_family = error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
    const char* next = error == EADDRINUSE      ? "choose another port, or stop the process that holds this one"
                       : error == EADDRNOTAVAIL ? "choose an address of this host"
                                                : "choose a port that this user may open";
    return Status::FromErrno(Code::kInvalid, "bind", error).Next(next);
  }
  return fd;
}

uint16_t PortTaken(const Fd& fd) {
  SocketAddress taken;
  taken.length = sizeof(taken.storage);
  FUSEWIRE_CHECK(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&taken.storage), &taken.length) == 0);
  return PortOf(taken);
}

// Not a port that the kernel assigns to a process that asks for a free port; those are odd or even, like the first of
// its range: a launcher asks for one, releases it, and starts a server there seconds later. The other half is for
// connections, so the kernel does not assign it to listeners. If those are in use, by connections that ended recently,
// any port.
Result<Fd> ListenAtAnyPort(const SocketAddress& where, const TcpOptions& options, bool* no_such_family) {
  Result<Fd> proposed = BindAndListen(where, options, no_such_family);
  for (int tries = 0; proposed.ok() && tries < kNeighboursTried; ++tries) {
    SocketAddress beside = where;
    SetPort(&beside, PortTaken(proposed.value()) ^ 1U);
    bool ignored = false;
    Result<Fd> neighbour = BindAndListen(beside, options, &ignored);
    if (neighbour.ok()) return neighbour;
    Result<Fd> another = BindAndListen(where, options, &ignored);
    if (another.ok()) proposed = std::move(another);
  }
  return proposed;
}

}  // namespace

Result<std::unique_ptr<Listener>> TcpListener::Open(reactor::Reactor& home, const Address& address,
                                                    const TcpOptions& options, OnIncoming on_incoming) {
  FUSEWIRE_AT_HOME(home);
  bool everywhere = address.host.empty() || address.host == "*";
  std::string host = address.host == "localhost" ? WhereToListen(address.host).host : address.host;
  SocketAddress where;
  if (!ParseNumeric(everywhere ? "::" : host, address.port, &where)) {
    return Status::Invalid("a server listens on a numeric address, not on a name")
        .Peer(address.ToString())
        .Phase("listen")
        .Next("write the address in numbers, or :port for every interface");
  }
  bool no_such_family = false;
  auto open = address.port == 0 ? ListenAtAnyPort : BindAndListen;
  Result<Fd> fd = open(where, options, &no_such_family);
  if (!fd.ok() && everywhere && no_such_family) {
    FUSEWIRE_CHECK(ParseNumeric("0.0.0.0", address.port, &where));
    fd = open(where, options, &no_such_family);
  }
  if (!fd.ok()) return fd.status().Peer(address.ToString()).Phase("listen");
  Address taken{address.host, PortTaken(fd.value())};
  auto listener = std::make_unique<TcpListener>(home, std::move(fd).value(), taken, options, std::move(on_incoming));
  Status watched = listener->accepting_.Start();
  if (!watched.ok()) return watched.Peer(address.ToString()).Phase("listen");
  return std::unique_ptr<Listener>(std::move(listener));
}

TcpListener::TcpListener(reactor::Reactor& home, Fd fd, const Address& address, const TcpOptions& options,
                         OnIncoming on_incoming)
    : address_(address),
      options_(options),
      on_incoming_(std::move(on_incoming)),
      accepting_(home, std::move(fd), address, [this](Fd accepted, const SocketAddress& peer) {
        TuneConnected(accepted.get(), options_);
        on_incoming_(std::make_unique<TcpIncoming>(std::move(accepted), ToText(peer)));
      }) {}

}  // namespace fusewire::transport
