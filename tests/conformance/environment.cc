// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "environment.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/sanitizers.h"
#include "fusewire/reactor/home_test.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/transport/tls/certificates_test.h"
#include "fusewire/transport/transports.h"
#include "loopback/loopback.h"

namespace fusewire::conformance {
namespace {

using transport::Address;

// ---- TCP ----

// A port whose queue is full and that nobody serves.
class SilentPort {
 public:
  virtual ~SilentPort() = default;
  virtual uint16_t port() const = 0;
};

// The kernel drops new connections.
class SilentTcpPort final : public SilentPort {
 public:
  SilentTcpPort() {
    listening_ = MakeSocket();
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    FUSEWIRE_CHECK(bind(listening_, reinterpret_cast<sockaddr*>(&address), length) == 0);
    FUSEWIRE_CHECK(listen(listening_, 0) == 0);
    FUSEWIRE_CHECK(getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &length) == 0);
    port_ = ntohs(address.sin_port);
    for (int& queued : queued_) {
      queued = MakeSocket();
      (void)connect(queued, reinterpret_cast<sockaddr*>(&address), length);
    }
  }
  ~SilentTcpPort() override {
    close(listening_);
    for (int queued : queued_) close(queued);
  }
  uint16_t port() const override { return port_; }

 private:
  static int MakeSocket() {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    FUSEWIRE_CHECK(fd >= 0);
    return fd;
  }
  int listening_ = -1;
  int queued_[3] = {-1, -1, -1};
  uint16_t port_ = 0;
};

// The kernel makes diallers try again.
class SilentShmPort final : public SilentPort {
 public:
  SilentShmPort() {
    listening_ = MakeSocket();
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    const std::string name = "fusewire/1/127.0.0.1/" + std::to_string(port());
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    FUSEWIRE_CHECK(bind(listening_, reinterpret_cast<sockaddr*>(&address), length) == 0);
    FUSEWIRE_CHECK(listen(listening_, 0) == 0);
    for (int& queued : queued_) {
      queued = MakeSocket();
      (void)connect(queued, reinterpret_cast<sockaddr*>(&address), length);
    }
  }
  ~SilentShmPort() override {
    close(listening_);
    for (int queued : queued_) close(queued);
  }
  uint16_t port() const override { return number_.port(); }

 private:
  static int MakeSocket() {
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    FUSEWIRE_CHECK(fd >= 0);
    return fd;
  }
  const SilentTcpPort number_;  // that nobody else on this machine has
  int listening_ = -1;
  int queued_[3] = {-1, -1, -1};
};

using MakeTransportFunction = std::function<std::unique_ptr<transport::Transport>()>;

// Threads, and the real kernel between them.
class SocketEnvironment final : public Environment {
 public:
  // `listens` is a number, `dials` a number or a name.
  SocketEnvironment(MakeTransportFunction make, std::function<std::unique_ptr<SilentPort>()> make_silent,
                    std::string listens, std::string dials)
      : make_(std::move(make)),
        make_silent_(std::move(make_silent)),
        listens_(std::move(listens)),
        dials_(std::move(dials)) {
    pool_a_ = MakePool(Side::kA);
    pool_b_ = MakePool(Side::kB);
    transport_a_ = MakeTransport(Side::kA);
    transport_b_ = MakeTransport(Side::kB);
  }
  ~SocketEnvironment() override {
    pool_a_->Close();
    pool_b_->Close();
  }

  reactor::Pool& pool_a() override { return *pool_a_; }
  reactor::Pool& pool_b() override { return *pool_b_; }
  transport::Transport& transport_a() override { return *transport_a_; }
  transport::Transport& transport_b() override { return *transport_b_; }
  std::unique_ptr<reactor::Pool> MakePool(Side side) override {
    reactor::PoolOptions options;
    options.name = side == Side::kA ? "a" : "b";
    options.reactors = side == Side::kA ? 1 : 2;
    return std::move(reactor::Pool::Start(options)).value();
  }
  std::unique_ptr<transport::Transport> MakeTransport(Side) override { return make_(); }
  Address listen_address() override { return {listens_, 0}; }
  Address At(uint16_t port) override { return {dials_, port}; }
  Address Refusing() override { return {dials_, 1}; }
  Address Silent() override {
    if (silent_ == nullptr) silent_ = make_silent_();
    return {"127.0.0.1", silent_->port()};
  }
  Address Foreign() override { return {listens_ == "::1" ? "2001:db8::1" : "192.0.2.1", 0}; }

  bool RunUntil(UniqueFunction<bool()> done, int64_t limit_ns) override {
    return reactor::Eventually([&done] { return done(); }, limit_ns);
  }
  void RunAtHome(reactor::Reactor& home, const std::function<void()>& what) override {
    reactor::AskHome(home, [&what] {
      what();
      return true;
    });
  }
  bool simulated() const override { return false; }

 private:
  const MakeTransportFunction make_;
  const std::function<std::unique_ptr<SilentPort>()> make_silent_;
  const std::string listens_, dials_;
  std::unique_ptr<SilentPort> silent_;
  std::unique_ptr<reactor::Pool> pool_a_, pool_b_;
  std::unique_ptr<transport::Transport> transport_a_, transport_b_;
};

bool HasIpv6() {
  int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  sockaddr_in6 address = {};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  bool bound = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return bound;
}

Kind Tcp(const std::string& name, const std::string& listens, const std::string& dials) {
  return {name, [listens, dials]() -> std::unique_ptr<Environment> {
            if (listens == "::1" && !HasIpv6()) return nullptr;
            auto make_silent = [] { return std::make_unique<SilentTcpPort>(); };
            return std::make_unique<SocketEnvironment>([] { return transport::MakeTcp({}); }, make_silent, listens,
                                                       dials);
          }};
}

Kind Checked(const std::string& name) {
  return {name,
          []() -> std::unique_ptr<Environment> {
            auto make = [] { return transport::MakeChecksum(transport::MakeTcp({})); };
            auto make_silent = [] { return std::make_unique<SilentTcpPort>(); };
            return std::make_unique<SocketEnvironment>(make, make_silent, "127.0.0.1", "127.0.0.1");
          },
          /*shakes_hands=*/false,
          /*copies=*/true};
}

// Null without OpenSSL.
std::unique_ptr<transport::Transport> OverTls(std::unique_ptr<transport::Transport> beneath) {
  static const auto* certificates = new transport::Certificates;
  return transport::MakeTls(std::move(beneath), certificates->Options()).value();
}

Kind Tls(const std::string& name) {
  return {name,
          []() -> std::unique_ptr<Environment> {
            if (!transport::TryTls({}).ok()) return nullptr;
            auto make = [] { return OverTls(transport::MakeTcp({})); };
            auto make_silent = [] { return std::make_unique<SilentTcpPort>(); };
            return std::make_unique<SocketEnvironment>(make, make_silent, "127.0.0.1", "127.0.0.1");
          },
          /*shakes_hands=*/true,
          /*copies=*/true};
}

Kind Shm(const std::string& name, bool lend, const std::string& dials) {
  return {name, [lend, dials] {
            auto make = [lend] { return transport::MakeShm(lend); };
            auto make_silent = [] { return std::make_unique<SilentShmPort>(); };
            return std::make_unique<SocketEnvironment>(make, make_silent, "127.0.0.1", dials);
          }};
}

Kind Nearest(const std::string& name) {
  return {name, [] {
            auto make = [] { return transport::MakeNearest(transport::MakeShm(), transport::MakeTcp({})); };
            // Silent near and far: a dial begins with the one, and ends with the other.
            auto make_silent = [] { return std::make_unique<SilentShmPort>(); };
            return std::make_unique<SocketEnvironment>(make, make_silent, "127.0.0.1", "127.0.0.1");
          }};
}

// ThreadSanitizer cannot look into libucp, whose own thread it takes for a race.
Kind Ucx(const std::string& name, const std::string& wires) {
  return {name, [wires]() -> std::unique_ptr<Environment> {
            const transport::UcxDescription ucx = transport::DescribeUcx({});
            if (kThreadSanitizer || !ucx.loaded || (wires == "rc" && ucx.rdma_devices.empty())) return nullptr;
            setenv("UCX_TLS", wires.c_str(), 1);
            setenv("UCX_MM_ERROR_HANDLING", "y", 1);  // else shared memory would not notice a peer's end
            return std::make_unique<SocketEnvironment>([] { return transport::MakeUcx(transport::MakeTcp({}), {}); },
                                                       [] { return std::make_unique<SilentTcpPort>(); }, "127.0.0.1",
                                                       "127.0.0.1");
          }};
}

// ---- loopback ----

class LoopbackEnvironment final : public Environment {
 public:
  LoopbackEnvironment(uint64_t seed, const transport::LoopbackFaults& faults, bool over_tls)
      : world_(seed, faults), over_tls_(over_tls) {
    home_a_ = world_.AddHost("a");
    home_b_ = world_.AddHost("b");
    world_.AddHost("silent");
    world_.KillHost("silent", transport::LoopbackDeath::kSilent);
    world_.AddHost("foreign");
    pool_a_ = MakePool(Side::kA);
    pool_b_ = MakePool(Side::kB);
    transport_a_ = MakeTransport(Side::kA);
    transport_b_ = MakeTransport(Side::kB);
  }

  reactor::Pool& pool_a() override { return *pool_a_; }
  reactor::Pool& pool_b() override { return *pool_b_; }
  transport::Transport& transport_a() override { return *transport_a_; }
  transport::Transport& transport_b() override { return *transport_b_; }
  std::unique_ptr<reactor::Pool> MakePool(Side side) override {
    return reactor::Pool::Around(side == Side::kA ? home_a_ : home_b_);
  }
  std::unique_ptr<transport::Transport> MakeTransport(Side side) override {
    auto made = world_.MakeTransport(side == Side::kA ? "a" : "b");
    return over_tls_ ? OverTls(std::move(made)) : std::move(made);
  }
  Address listen_address() override { return {"b", 0}; }
  Address At(uint16_t port) override { return {"b", port}; }
  Address Refusing() override { return {"b", 1}; }
  Address Silent() override { return {"silent", 1}; }
  Address Foreign() override { return {"foreign", 0}; }

  bool RunUntil(UniqueFunction<bool()> done, int64_t limit_ns) override {
    return world_.RunUntil(std::move(done), limit_ns);
  }
  void RunAtHome(reactor::Reactor& home, const std::function<void()>& what) override {
    home.Run([&what] { what(); });
  }
  bool simulated() const override { return true; }

 private:
  transport::LoopbackWorld world_;
  const bool over_tls_;
  reactor::Reactor *home_a_ = nullptr, *home_b_ = nullptr;
  std::unique_ptr<reactor::Pool> pool_a_, pool_b_;
  std::unique_ptr<transport::Transport> transport_a_, transport_b_;
};

Kind Loopback(const std::string& name, uint64_t seed, const transport::LoopbackFaults& faults, bool over_tls = false) {
  return {name,
          [seed, faults, over_tls]() -> std::unique_ptr<Environment> {
            if (over_tls && !transport::TryTls({}).ok()) return nullptr;
            return std::make_unique<LoopbackEnvironment>(seed, faults, over_tls);
          },
          /*shakes_hands=*/over_tls,
          /*copies=*/over_tls};
}

}  // namespace

std::vector<Kind> AllKinds() {
  transport::LoopbackFaults nasty;
  nasty.split = true;
  nasty.late_answer_chance = 0.3;
  nasty.latency_ns_min = 0;
  nasty.latency_ns_max = kMillisecondNs;
  nasty.dial_delay_ns_max = kMillisecondNs;
  transport::LoopbackFaults narrow = nasty;
  narrow.send_buffer_bytes = 700;
  narrow.receive_buffer_bytes = 1000;
  return {Tcp("TcpV4", "127.0.0.1", "127.0.0.1"),
          Tcp("TcpV6", "::1", "::1"),
          Tcp("TcpByName", "127.0.0.1", "localhost"),
          Checked("Checked"),
          Tls("Tls"),
          Shm("Shm", true, "127.0.0.1"),
          Shm("ShmByName", true, "localhost"),
          Shm("ShmThroughTheRing", false, "127.0.0.1"),
          Nearest("Nearest"),
          Ucx("UcxTcp", "tcp"),
          Ucx("UcxShm", "posix,sysv,cma"),
          Ucx("UcxRdma", "rc"),
          Loopback("LoopbackKind", 1, transport::LoopbackFaults()),
          Loopback("LoopbackNasty2", 2, nasty),
          Loopback("LoopbackNasty3", 3, nasty),
          Loopback("LoopbackNarrow", 4, narrow),
          Loopback("LoopbackTls", 5, nasty, true)};
}

}  // namespace fusewire::conformance
