// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/transports.h"

#include <netinet/in.h>
#include <sys/epoll.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/transport/accepting.h"
#include "fusewire/transport/dialing.h"
#include "fusewire/transport/listening.h"
#include "fusewire/transport/tcp/tcp_connection.h"

namespace fusewire::transport {
namespace {

// Accepts TCP connections, and survives when the process runs out of descriptors.
class TcpListener final : public Listener {
 public:
  static Result<std::unique_ptr<Listener>> Open(reactor::Reactor& home, const Address& address,
                                                const TcpOptions& options, OnIncoming on_incoming);
  TcpListener(reactor::Reactor& home, Fd fd, const Address& address, const TcpOptions& options, OnIncoming on_incoming);
  Address address() const override { return address_; }

 private:
  const Address address_;
  const TcpOptions& options_;
  OnIncoming on_incoming_;
  Accepting accepting_;
};

class TcpDialing final : public DialingInTurn {
 public:
  TcpDialing(reactor::Reactor& home, Address address, const TcpOptions& options, OnDialed on_dialed)
      : DialingInTurn(home, std::move(address), std::move(on_dialed)), options_(options) {}

 private:
  void OnNames(const Names& names) override;
  void TryNext() override;
  void OnEvents(uint32_t epoll_events) override;
  Status Connect(const std::string& number);
  Status CheckConnected();

  const TcpOptions& options_;
  std::vector<std::string> numbers_;
  SocketAddress current_;
};

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

// ---- listening ----

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

// ---- dialing ----

void TcpDialing::OnNames(const Names& names) {
  if (!names.ok()) {
    Finish(names.status());
    return;
  }
  numbers_ = names.value();
  if (numbers_.empty()) {
    Finish(Status::Unavailable("the name has no address").Phase("resolve " + address_.host).Next("check the name"));
    return;
  }
  TryNext();
}

void TcpDialing::TryNext() {
  reactor::Reactor::Disarm(&step_);
  Drop();
  if (next_ == numbers_.size()) {
    Finish(last_error_);
    return;
  }
  const std::string& number = numbers_[next_++];
  last_error_ = Connect(number);
  if (!last_error_.ok()) {
    home_.Arm(&step_, 0);
    return;
  }
  // A silent address must not use up the time of the next ones.
  size_t behind = numbers_.size() - next_;
  last_error_ = Status::Timeout(number + " does not answer");
  if (behind > 0) home_.Arm(&step_, (deadline_.due_ns() - home_.now_ns()) / static_cast<int64_t>(behind + 1));
}

// Begins to connect. Even if that succeeds at once, OnEvents follows: the callback never runs inside Dial.
Status TcpDialing::Connect(const std::string& number) {
  if (!ParseNumeric(number, address_.port, &current_)) {
    return Status::Unavailable("\"" + number + "\" is not an address");
  }
  fd_ = FUSEWIRE_TRY(MakeSocket(current_, options_));
  int outcome = connect(fd_.get(), current_.get(), current_.length);
  if (outcome != 0 && errno != EINPROGRESS && errno != EINTR) {
    return Status::FromErrno(Code::kUnavailable, "connect", errno);
  }
  return Watch(EPOLLOUT);
}

void TcpDialing::OnEvents(uint32_t) {
  Status connected = CheckConnected();
  if (!connected.ok()) {
    last_error_ = std::move(connected);
    TryNext();
    return;
  }
  TuneConnected(fd_.get(), options_);
  Succeed(std::make_unique<TcpConnection>(home_, TakeSocket(), ToText(current_)));
}

Status TcpDialing::CheckConnected() {
  int error = 0;
  socklen_t length = sizeof(error);
  if (getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  // A socket that dials a free port in its own host's dynamic range can connect to itself.
  SocketAddress own;
  own.length = sizeof(own.storage);
  if (error == 0) getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&own.storage), &own.length);
  if (error == 0 && ToText(own) == ToText(current_)) error = ECONNREFUSED;
  return error == 0 ? Status::Ok() : Status::FromErrno(Code::kUnavailable, "connect", error);
}

class TcpTransport final : public Transport {
 public:
  explicit TcpTransport(TcpOptions options) : resolver_(std::move(options.resolve)), options_(std::move(options)) {}

  Result<std::unique_ptr<Listener>> Listen(reactor::Reactor& home, const Address& address,
                                           OnIncoming on_incoming) override {
    return TcpListener::Open(home, address, options_, std::move(on_incoming));
  }

  std::unique_ptr<Dialing> Dial(reactor::Reactor& home, const Address& address, int64_t timeout_ns,
                                OnDialed on_dialed) override {
    auto dialing = std::make_unique<TcpDialing>(home, address, options_, std::move(on_dialed));
    dialing->Start(&resolver_, address.host.empty() ? "localhost" : address.host, timeout_ns);
    return dialing;
  }
  bool HandsOver() const override { return true; }

 private:
  Resolver resolver_;
  const TcpOptions options_;
};

}  // namespace

std::unique_ptr<Transport> MakeTcp(TcpOptions options) { return std::make_unique<TcpTransport>(std::move(options)); }

}  // namespace fusewire::transport
