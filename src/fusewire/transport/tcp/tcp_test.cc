// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The particulars of TCP: sockets that are not ours at the other end, names, and the limits of the process. The
// contract that all transports keep is tested by tests/conformance.
#include "fusewire/transport/transports.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/log.h"
#include "fusewire/reactor/home_test.h"
#include "fusewire/transport/lab_test.h"
#include "fusewire/transport/talker_test.h"
#include "fusewire/transport/tcp/tcp_connection.h"

namespace fusewire::transport {
namespace {

using reactor::AskHome;
using reactor::Eventually;
using testing::HasSubstr;

// A plain blocking socket at the other end, which does whatever a peer may do.
struct RawSocket {
  RawSocket() : fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    timeval patience = {20, 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  explicit RawSocket(int accepted) : fd(accepted) {}

  static sockaddr_in At(const char* host, uint16_t port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    inet_pton(AF_INET, host, &address.sin_addr);
    return address;
  }
  bool Bind(const char* host, uint16_t port) const {
    sockaddr_in address = At(host, port);
    return bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  bool Connect(uint16_t port) const {
    sockaddr_in address = At("127.0.0.1", port);
    return connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  uint16_t port() const {
    sockaddr_in address = {};
    socklen_t length = sizeof(address);
    getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length);
    return ntohs(address.sin_port);
  }
  RawSocket Accept() const { return RawSocket(accept4(fd.get(), nullptr, nullptr, SOCK_CLOEXEC)); }
  bool Say(const std::string& text) const {
    return send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  // All until the end, or until that takes too long.
  std::string Hear() const {
    std::string heard;
    char part[4096];
    for (ssize_t got; (got = recv(fd.get(), part, sizeof(part), 0)) > 0;) heard.append(part, static_cast<size_t>(got));
    return heard;
  }
  bool WaitForInput() const {
    pollfd waiting = {fd.get(), POLLIN, 0};
    return poll(&waiting, 1, 20000) == 1;
  }
  // The end that a killed process makes of its connections with unread input.
  void ResetOnClose() const {
    linger now = {1, 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  }

  Fd fd;
};

class Tcp : public testing::Test {
 protected:
  explicit Tcp(TcpOptions options = TcpOptions())
      : home_(std::move(reactor::Reactor::Start(reactor::Options())).value()),
        transport_(MakeTcp(std::move(options))) {}
  ~Tcp() override { Clean(); }
  void Clean() {
    AtHome([this] {
      dialing_.reset();
      talkers_.clear();
      incoming_.clear();
      listener_.reset();
    });
  }
  void AtHome(const std::function<void()>& what) {
    AskHome(*home_, [&what] { what(); });
  }
  // A talker at our end of a connection to `raw`, which has not begun to read yet if `start` is false.
  std::unique_ptr<Connection> ConnectionTo(RawSocket* raw) {
    RawSocket listening;
    EXPECT_TRUE(listening.Bind("127.0.0.1", 0));
    EXPECT_EQ(listen(listening.fd.get(), 1), 0);
    Result<std::unique_ptr<Connection>> made = Dial({"127.0.0.1", listening.port()});
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    *raw = listening.Accept();
    return std::move(made).value();
  }
  Talker* TalkerTo(RawSocket* raw) {
    std::unique_ptr<Connection> connection = ConnectionTo(raw);
    auto talker = std::make_unique<Talker>(1);
    Talker* here = talker.get();
    AtHome([&] {
      here->Meet(std::move(connection));
      talkers_.push_back(std::move(talker));
    });
    return here;
  }
  Result<std::unique_ptr<Connection>> Dial(const Address& address, int64_t timeout_ns = 10 * kSecondNs) {
    std::promise<Result<std::unique_ptr<Connection>>> made;
    AtHome([&] {
      dialing_ = transport_->Dial(*home_, address, timeout_ns, [&made](Result<std::unique_ptr<Connection>> result) {
        made.set_value(std::move(result));
      });
    });
    std::future<Result<std::unique_ptr<Connection>>> outcome = made.get_future();
    FUSEWIRE_CHECK(outcome.wait_for(std::chrono::seconds(30)) == std::future_status::ready);
    return outcome.get();
  }
  // Where to dial; what comes is kept in incoming_.
  uint16_t Listen(const std::string& host = "127.0.0.1") {
    uint16_t port = 0;
    AtHome([&] {
      auto listening = transport_->Listen(*home_, {host, 0}, [this](std::unique_ptr<Incoming> incoming) {
        incoming_.push_back(std::move(incoming));
        ++arrived_;
      });
      ASSERT_TRUE(listening.ok()) << listening.status().ToString();
      listener_ = std::move(listening).value();
      port = listener_->address().port;
    });
    return port;
  }

  std::unique_ptr<reactor::Reactor> home_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Dialing> dialing_;
  std::vector<std::unique_ptr<Talker>> talkers_;
  std::vector<std::unique_ptr<Incoming>> incoming_;
  std::atomic<int> arrived_{0};
};

// ---- a peer that goes ----

TEST_F(Tcp, APeerThatResetsIsReportedWithTheKernelsWords) {
  RawSocket raw;
  Talker* talker = TalkerTo(&raw);
  raw.ResetOnClose();
  raw.fd.Close();
  ASSERT_TRUE(Eventually([&] { return talker->closed > 0; }));
  AtHome([&] {
    EXPECT_EQ(talker->why().code(), Code::kUnavailable);
    EXPECT_THAT(talker->why().cause(), HasSubstr("reset"));
    EXPECT_EQ(talker->fault(), "");
  });
}

TEST_F(Tcp, APeerThatClosesHalfIsClosed) {
  RawSocket raw;
  Talker* talker = TalkerTo(&raw);
  EXPECT_TRUE(raw.Say("the end"));
  EXPECT_EQ(shutdown(raw.fd.get(), SHUT_WR), 0);
  ASSERT_TRUE(Eventually([&] { return talker->closed > 0; }));
  AtHome([&] {
    EXPECT_EQ(talker->text(), "the end");
    EXPECT_EQ(talker->why().code(), Code::kUnavailable);
  });
  EXPECT_EQ(raw.Hear(), "");  // and sees that we closed, too
}

// The peer sends its reason, and closes with our bytes unread: our next write fails, but its bytes are received.
TEST_F(Tcp, LastWordsAreHeardThoughAWriteFails) {
  RawSocket raw;
  std::unique_ptr<Connection> connection = ConnectionTo(&raw);
  auto talker = std::make_unique<Talker>(1);
  Talker* here = talker.get();
  AtHome([&] {
    here->Meet(std::move(connection));
    here->Say("hello");
  });
  EXPECT_TRUE(raw.WaitForInput());
  AtHome([&] {
    // At home: nothing is read meanwhile.
    EXPECT_TRUE(raw.Say("go away"));
    raw.fd.Close();  // with unread input: a reset
    for (int i = 0; i < 10; ++i) here->Say("more");
    talkers_.push_back(std::move(talker));
  });
  ASSERT_TRUE(Eventually([&] { return here->closed > 0; }));
  AtHome([&] {
    EXPECT_EQ(here->text(), "go away");
    EXPECT_EQ(here->why().code(), Code::kUnavailable);
    EXPECT_EQ(here->closed, 1);
    EXPECT_EQ(here->fault(), "");
  });
}

TEST_F(Tcp, ClosingWithUnreadInputStillDeliversWhatWasWritten) {
  RawSocket raw;
  std::unique_ptr<Connection> connection = ConnectionTo(&raw);
  auto talker = std::make_unique<Talker>(1);
  Talker* here = talker.get();
  AtHome([&] {
    EXPECT_TRUE(raw.Say(std::string(100 * 1000, 'x')));
    here->Meet(std::move(connection));
    here->Say("not here");
    here->Close();
    talkers_.push_back(std::move(talker));
  });
  EXPECT_EQ(raw.Hear(), "not here");
  EXPECT_TRUE(Eventually([&] { return here->closed == 1; }));
}

// ---- options ----

SocketAddress NumericAddress(const char* host, uint16_t port) {
  SocketAddress address;
  EXPECT_TRUE(ParseNumeric(host, port, &address));
  return address;
}

TEST_F(Tcp, TunesItsSockets) {
  TcpOptions options;
  Result<Fd> fd = MakeSocket(NumericAddress("127.0.0.1", 5), options);
  ASSERT_TRUE(fd.ok());
  TuneConnected(fd.value().get(), options);
  auto read = [&fd](int level, int name) {
    int value = -1;
    socklen_t length = sizeof(value);
    EXPECT_EQ(getsockopt(fd.value().get(), level, name, &value, &length), 0);
    return value;
  };
  EXPECT_EQ(read(IPPROTO_TCP, TCP_NODELAY), 1);
  EXPECT_EQ(read(IPPROTO_TCP, TCP_NOTSENT_LOWAT), options.unsent_bytes_max);
  EXPECT_EQ(read(IPPROTO_TCP, TCP_USER_TIMEOUT), options.user_timeout_ns / kMillisecondNs);
  EXPECT_GT(read(SOL_SOCKET, SO_RCVBUF), 0);
}

// The next connection; not valid: none comes.
Fd Accepted(const Fd& listener) {
  Fd accepted;
  (void)Eventually([&] {
    accepted = Fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    return accepted.valid();
  });
  return accepted;
}

// How much a peer can send to one that does not read.
int UnreadBytes(const Fd& to, const Fd& from) {
  const int little = 16 * 1024;
  setsockopt(from.get(), SOL_SOCKET, SO_SNDBUF, &little, sizeof(little));
  const std::string block(little, 'x');
  int said = 0, unread = -1;
  pollfd writable = {from.get(), POLLOUT, 0};
  while (poll(&writable, 1, 300) == 1) {
    said += std::max(0, static_cast<int>(send(from.get(), block.data(), block.size(), MSG_NOSIGNAL)));
  }
  EXPECT_EQ(ioctl(to.get(), FIONREAD, &unread), 0);
  EXPECT_LE(unread, said);
  return unread;
}

// On one host a socket holds a message of 512 KiB, but nothing that a control message would wait behind for long;
// whichever end dials.
TEST(TcpSocket, HoldsOneMessageUnread) {
  int system_max = 0;
  std::ifstream("/proc/sys/net/core/rmem_max") >> system_max;
  for (int bytes : {0, 256 * 1024}) {
    TcpOptions options;
    options.receive_buffer_bytes = bytes;
    SocketAddress here = NumericAddress("127.0.0.1", 0);
    const Fd listener = std::move(MakeSocket(here, options)).value();
    ASSERT_EQ(bind(listener.get(), here.get(), here.length), 0);
    ASSERT_EQ(listen(listener.get(), 2), 0);
    ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&here.storage), &here.length), 0);
    for (bool dials : {true, false}) {
      const Fd dialler = std::move(MakeSocket(here, options)).value();
      ASSERT_TRUE(connect(dialler.get(), here.get(), here.length) == 0 || errno == EINPROGRESS);
      const Fd accepted = Accepted(listener);
      ASSERT_TRUE(accepted.valid());
      TuneConnected(dialler.get(), options);
      TuneConnected(accepted.get(), options);
      const int unread = dials ? UnreadBytes(dialler, accepted) : UnreadBytes(accepted, dialler);
      EXPECT_LE(unread, bytes == 0 ? 700 * 1024 : 400 * 1024);
      EXPECT_GE(unread, bytes == 0 && system_max >= 304 * 1024 ? 512 * 1024 : 128 * 1024);
    }
  }
}

std::string CongestionControlOf(const Fd& fd) {
  char name[32] = "";
  socklen_t length = sizeof(name) - 1;
  return getsockopt(fd.get(), IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0 ? name : "";
}

// In a network of its own whose system paces. 0: a connection that stays on this host is not paced from its beginning
// on, as it would stay so for good; all others are.
int PaceOnlyBetweenHosts() {
  if (!OwnNetwork()) return kNotHere;
  const Fd setting(open("/proc/sys/net/ipv4/tcp_congestion_control", O_WRONLY | O_CLOEXEC));
  if (!setting.valid() || write(setting.get(), "bbr", 3) != 3) return kNotHere;
  SocketAddress here = NumericAddress("0.0.0.0", 0);
  const Fd listener = std::move(MakeSocket(here, {})).value();
  if (bind(listener.get(), here.get(), here.length) != 0 || listen(listener.get(), 2) != 0) return kNotHere;
  here.length = sizeof(here.storage);
  if (getsockname(listener.get(), reinterpret_cast<sockaddr*>(&here.storage), &here.length) != 0) return kNotHere;
  if (CongestionControlOf(listener) != "reno") return 3;
  // Between 127.0.0.1 and 127.0.0.2, the addresses differ as between two hosts.
  const char* const hosts[] = {"127.0.0.1", "127.0.0.2"};
  const char* const wanted[] = {"reno", "bbr"};
  for (int i = 0; i < 2; ++i) {
    const SocketAddress there = NumericAddress(hosts[i], PortOf(here));
    const Fd dialler = std::move(MakeSocket(there, {})).value();
    if (CongestionControlOf(dialler) != "reno") return 4;
    const SocketAddress own = NumericAddress("127.0.0.1", 0);
    if (bind(dialler.get(), own.get(), own.length) != 0) return kNotHere;
    if (connect(dialler.get(), there.get(), there.length) != 0 && errno != EINPROGRESS) return kNotHere;
    const Fd accepted = Accepted(listener);
    if (!accepted.valid()) return 8;
    TuneConnected(dialler.get(), {});
    TuneConnected(accepted.get(), {});
    if (CongestionControlOf(dialler) != wanted[i]) return 5;
    if (CongestionControlOf(accepted) != wanted[i]) return 6;
  }
  const Fd far = std::move(MakeSocket(NumericAddress("192.0.2.1", 5), {})).value();
  return CongestionControlOf(far) == "bbr" ? 0 : 7;
}

TEST(TcpSocket, PacesOnlyBetweenHosts) {
  const int code = CodeOf(&PaceOnlyBetweenHosts);
  if (code == kNotHere) GTEST_SKIP() << "no network namespace, or no BBR, can be had here";
  EXPECT_EQ(code, 0);
}

// ---- listening ----

bool HasIpv6() {
  Fd fd(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  SocketAddress loopback;
  return fd.valid() && ParseNumeric("::1", 0, &loopback) && bind(fd.get(), loopback.get(), loopback.length) == 0;
}

TEST_F(Tcp, ListensEverywhereOnBothVersions) {
  uint16_t port = Listen("");
  std::vector<const char*> hosts = {"127.0.0.1", "localhost", ""};
  if (HasIpv6()) hosts.push_back("::1");
  for (const char* host : hosts) {
    Result<std::unique_ptr<Connection>> made = Dial({host, port});
    ASSERT_TRUE(made.ok()) << host << ": " << made.status().ToString();
    AtHome([&] { std::move(made).value().reset(); });
  }
  EXPECT_TRUE(Eventually([&] { return arrived_ == static_cast<int>(hosts.size()); }));
}

// A launcher that found a free port, let it go and starts a server there seconds later should not find us in it.
TEST_F(Tcp, AFreePortIsNotOneThatTheKernelAssigns) {
  RawSocket found;
  ASSERT_TRUE(found.Bind("127.0.0.1", 0));
  int of_that_kind = 0;
  for (int i = 0; i < 40; ++i) of_that_kind += Listen() % 2 == found.port() % 2 ? 1 : 0;
  EXPECT_LE(of_that_kind, 4);  // where the neighbour is taken
}

TEST_F(Tcp, DoesNotListenBesideAnotherOnTheSamePort) {
  // Another process holds the port on the other version of IP: that only half of the peers are served would go
  // unnoticed.
  Fd other(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  int on = 1;
  ASSERT_EQ(setsockopt(other.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)), 0);
  sockaddr_in6 address = {};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_any;
  ASSERT_EQ(bind(other.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(other.get(), 1), 0);
  socklen_t length = sizeof(address);
  ASSERT_EQ(getsockname(other.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  AtHome([&] {
    auto listening = transport_->Listen(*home_, {"", ntohs(address.sin6_port)}, [](std::unique_ptr<Incoming>) {});
    ASSERT_FALSE(listening.ok());
    EXPECT_THAT(listening.status().cause(), HasSubstr("in use"));
  });
}

// In a network of its own that has no IPv4, not even 127.0.0.1. 0: one dials "localhost" and meets who listens there.
int MeetOnIpv6Only() {
  if (!OwnNetwork()) return kNotHere;
  const Fd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq loopback = {};
  std::strncpy(loopback.ifr_name, "lo", sizeof(loopback.ifr_name) - 1);
  loopback.ifr_addr.sa_family = AF_INET;  // 0.0.0.0 takes the address away
  if (ioctl(fd.get(), SIOCSIFADDR, &loopback) != 0) return kNotHere;
  std::unique_ptr<reactor::Reactor> home = std::move(reactor::Reactor::Start({})).value();
  std::unique_ptr<Transport> tcp = MakeTcp({});
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Dialing> dialing;
  std::atomic<int> met{0}, dialled{0};
  home->Run([&] {
    auto listening = tcp->Listen(*home, {"localhost", 0}, [&met](std::unique_ptr<Incoming>) { ++met; });
    if (!listening.ok()) return;
    listener = std::move(listening).value();
    dialing = tcp->Dial(*home, {"localhost", listener->address().port}, 5 * kSecondNs,
                        [&dialled](Result<std::unique_ptr<Connection>> made) { dialled = made.ok() ? 1 : -1; });
  });
  const bool well = listener != nullptr && Eventually([&] { return met == 1 && dialled == 1; });
  home->Run([&] {
    dialing.reset();
    listener.reset();
  });
  return well ? 0 : 1;
}

TEST(Localhost, IsIpv6WhereThereIsNothingElse) {
  const int code = CodeOf(&MeetOnIpv6Only);
  if (code == kNotHere) GTEST_SKIP() << "no network namespace, or no IPv6, can be had here";
  EXPECT_EQ(code, 0);
}

TEST_F(Tcp, AServerListensOnNumbers) {
  AtHome([&] {
    auto listening = transport_->Listen(*home_, {"server.example.org", 0}, [](std::unique_ptr<Incoming>) {});
    ASSERT_FALSE(listening.ok());
    EXPECT_EQ(listening.status().code(), Code::kInvalid);
    EXPECT_EQ(listening.status().peer(), "server.example.org:0");
    EXPECT_EQ(listening.status().phase(), "listen");
    EXPECT_NE(listening.status().next(), "");
  });
}

// No descriptor is left: diallers are refused at once instead of hanging, there is one log entry, and connections are
// accepted again as soon as descriptors are free.
TEST_F(Tcp, RunsOutOfDescriptorsAndRecovers) {
  static std::atomic<int> lines{0};
  lines = 0;
  SetLogSink(
      [](LogLevel, const char* line, void*) { lines += std::string(line).find("ulimit -n") != std::string::npos; },
      nullptr);
  uint16_t port = Listen();
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  std::vector<RawSocket> diallers(40);
  rlimit low = old;
  low.rlim_cur = static_cast<rlim_t>(diallers.back().fd.get() + 8);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  int connected = 0;
  for (RawSocket& dialler : diallers) connected += dialler.Connect(port) ? 1 : 0;
  EXPECT_EQ(connected, 40);  // by the kernel; the process sees to it that they hear of its trouble
  EXPECT_TRUE(Eventually([&] { return lines > 0; }));
  for (int last = 1; last <= 3; ++last) {
    RawSocket& dialler = diallers[diallers.size() - static_cast<size_t>(last)];
    EXPECT_TRUE(dialler.WaitForInput());
    EXPECT_EQ(dialler.Hear(), "");
  }
  EXPECT_EQ(lines, 1);
  // Dialling fails with the reason, too.
  std::vector<Fd> rest;
  for (int fd; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) rest.emplace_back(fd);
  Result<std::unique_ptr<Connection>> made = Dial({"127.0.0.1", port});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().code(), Code::kOverloaded);
  EXPECT_THAT(made.status().next(), HasSubstr("ulimit -n"));
  rest.clear();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
  RawSocket late;
  int before = arrived_;
  EXPECT_TRUE(late.Connect(port));
  EXPECT_TRUE(Eventually([&] { return arrived_ > before; }));
  SetLogSink(nullptr, nullptr);
}

// ---- names ----

// The resolver's answers. It may be called after the test has ended: its thread may still be inside the system's
// resolver.
struct NameService {
  std::function<Result<std::vector<std::string>>(const std::string&)> answer;
  std::atomic<int> asked{0};
  std::promise<void> gate;  // "slow" is answered once it is open
};

class TcpNames : public Tcp {
 protected:
  explicit TcpNames(std::shared_ptr<NameService> names = std::make_shared<NameService>())
      : Tcp(Asking(names)), names_(std::move(names)) {}
  static TcpOptions Asking(const std::shared_ptr<NameService>& names) {
    TcpOptions options;
    options.resolve = [names, open = std::make_shared<std::shared_future<void>>(names->gate.get_future())](
                          const std::string& host) -> Result<std::vector<std::string>> {
      ++names->asked;
      if (host == "slow") open->wait();
      return names->answer(host);
    };
    return options;
  }
  void Answer(std::vector<std::string> numbers) {
    names_->answer = [numbers = std::move(numbers)](const std::string&) { return numbers; };
  }
  const std::shared_ptr<NameService> names_;
};

TEST_F(TcpNames, TriesTheNextAddressWhenOneRefuses) {
  uint16_t port = Listen("127.0.0.1");
  Answer({"127.0.0.2", "nonsense", "::1", "127.0.0.1"});
  Result<std::unique_ptr<Connection>> made = Dial({"server", port});
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  EXPECT_EQ(made.value()->peer_address(), "127.0.0.1:" + std::to_string(port));
  AtHome([&] { std::move(made).value().reset(); });
}

// The first address swallows every packet. The second gets its share of the time.
TEST_F(TcpNames, TriesTheNextAddressWhenOneIsSilent) {
  uint16_t port = Listen("127.0.0.1");
  RawSocket full;
  ASSERT_TRUE(full.Bind("127.0.0.2", port));
  ASSERT_EQ(listen(full.fd.get(), 0), 0);
  // A queue of one that nobody serves: the kernel drops what more comes.
  std::vector<RawSocket> queued(3);
  sockaddr_in there = RawSocket::At("127.0.0.2", port);
  for (RawSocket& one : queued) {
    ASSERT_EQ(fcntl(one.fd.get(), F_SETFL, O_NONBLOCK), 0);
    (void)connect(one.fd.get(), reinterpret_cast<sockaddr*>(&there), sizeof(there));
  }
  Answer({"127.0.0.2", "127.0.0.1"});
  Result<std::unique_ptr<Connection>> made = Dial({"server", port}, kSecondNs);
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  EXPECT_EQ(made.value()->peer_address(), "127.0.0.1:" + std::to_string(port));
  AtHome([&] { std::move(made).value().reset(); });
  // If no address answers, the deadline ends it with an error that names the attempts.
  Answer({"127.0.0.2"});
  made = Dial({"server", port}, 50 * kMillisecondNs);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().code(), Code::kTimeout);
}

TEST_F(TcpNames, AsksAgainForEachDial) {
  uint16_t port = Listen("127.0.0.1");
  Answer({"127.0.0.2"});
  Result<std::unique_ptr<Connection>> made = Dial({"server", port});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().peer(), "server:" + std::to_string(port));
  EXPECT_THAT(made.status().cause(), HasSubstr("refused"));
  Answer({"127.0.0.1"});  // it has moved
  made = Dial({"server", port});
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  AtHome([&] { std::move(made).value().reset(); });
  EXPECT_EQ(names_->asked, 2);
}

TEST_F(TcpNames, ANameWithoutAddressIsAnError) {
  names_->answer = [](const std::string& host) -> Result<std::vector<std::string>> {
    if (host == "empty") return std::vector<std::string>{};
    return Status::Unavailable("no such name").Phase("resolve " + host).Next("check the name");
  };
  for (const char* host : {"empty", "unknown"}) {
    Result<std::unique_ptr<Connection>> made = Dial({host, 1});
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.status().code(), Code::kUnavailable);
    EXPECT_EQ(made.status().phase(), std::string("resolve ") + host);
    EXPECT_EQ(made.status().peer(), std::string(host) + ":1");
    EXPECT_NE(made.status().next(), "");
  }
}

TEST_F(TcpNames, TheDeadlineHoldsWhileTheSystemThinks) {
  Answer({"127.0.0.1"});
  Result<std::unique_ptr<Connection>> made = Dial({"slow", 1}, 30 * kMillisecondNs);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().code(), Code::kTimeout);
  // The transport and the reactor go while the resolver is still inside.
  Clean();
  transport_.reset();
  home_->Close();
  home_->Join();
  home_ = std::move(reactor::Reactor::Start(reactor::Options())).value();
  names_->gate.set_value();
}

// The answer meets a reactor that has ended, and a callback that dials again and then lets the transport go.
TEST_F(TcpNames, AnAnswerAfterTheLoopsEndDelaysNothing) {
  names_->answer = [](const std::string&) -> Result<std::vector<std::string>> { return Status::Unavailable("gone"); };
  std::atomic<int> outcomes{0};
  std::unique_ptr<Dialing> again;
  AtHome([&] {
    dialing_ = transport_->Dial(*home_, {"slow", 1}, 60 * kSecondNs, [&](Result<std::unique_ptr<Connection>> made) {
      EXPECT_FALSE(made.ok());
      again = transport_->Dial(*home_, {"other", 1}, 60 * kSecondNs, [&](Result<std::unique_ptr<Connection>>) {});
      again.reset();
      dialing_.reset();
      transport_.reset();
      ++outcomes;
    });
  });
  EXPECT_TRUE(Eventually([&] { return names_->asked == 1; }));
  home_->Close();
  home_->Join();
  names_->gate.set_value();
  EXPECT_TRUE(Eventually([&] { return outcomes == 1; }));
  // The resolver went inside its own post; its thread has left the reactor when it has let go of everything.
  EXPECT_TRUE(Eventually([&] { return names_.use_count() == 1; }));
}

}  // namespace
}  // namespace fusewire::transport
