// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The particulars of io_uring: rings that are too small, memory that the kernel holds, threads that end, kernels that
// refuse. tcp_test.cc and the conformance suite run over it too.
#include "fusewire/transport/uring/uring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fusewire/base/log.h"
#include "fusewire/reactor/home_test.h"
#include "fusewire/transport/talker_test.h"
#include "fusewire/transport/tcp/tcp.h"
#include "fusewire/transport/uring/ring.h"
#include "fusewire/transport/uring/uring_connection.h"

namespace fusewire {
namespace transport {
namespace uring {
namespace {

using reactor::AskHome;
using reactor::Eventually;

// One home whose ring may be as small as a test wants, and connections between sockets that the test holds.
class Uring : public testing::Test {
 protected:
  void SetUp() override {
    if (!TryUring().ok()) GTEST_SKIP() << "this machine has no io_uring";
  }
  void TearDown() override {
    if (home_ == nullptr) return;
    AtHome([this] { talkers_.clear(); });
    home_->Close();
  }
  void Start(const RingOptions& options = RingOptions()) {
    home_ = std::move(reactor::Reactor::Start(reactor::Options())).value();
    AtHome([&] {
      Result<std::unique_ptr<Ring>> made = Ring::Make(*home_, options);
      ASSERT_TRUE(made.ok()) << made.status().ToString();
      ring_ = made.value().get();
      home_->Keep(this, std::move(made).value());
    });
  }
  void AtHome(const std::function<void()>& what) {
    AskHome(*home_, [&what] {
      what();
      return true;
    });
  }
  // Two connections that are each other's peer, over TCP.
  static std::array<Fd, 2> Pair() {
    Fd listening(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    SocketAddress where;
    FUSEWIRE_CHECK(ParseNumeric("127.0.0.1", 0, &where));
    FUSEWIRE_CHECK(bind(listening.get(), where.get(), where.length) == 0);
    FUSEWIRE_CHECK(listen(listening.get(), 1) == 0);
    FUSEWIRE_CHECK(getsockname(listening.get(), reinterpret_cast<sockaddr*>(&where.storage), &where.length) == 0);
    Fd one(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    FUSEWIRE_CHECK(connect(one.get(), where.get(), where.length) == 0);
    Fd other(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
    FUSEWIRE_CHECK(other.valid());
    return {std::move(one), std::move(other)};
  }
  std::unique_ptr<Connection> Drive(Fd fd) {
    return std::make_unique<UringConnection>(*home_, *ring_, std::move(fd), "peer", nullptr);
  }
  // At home.
  Talker* Meet(Fd fd, Talker::Manner manner = Talker::Manner()) {
    talkers_.push_back(std::make_unique<Talker>(talkers_.size() + 1, manner));
    talkers_.back()->Meet(Drive(std::move(fd)));
    return talkers_.back().get();
  }
  RingStats Stats() {
    RingStats stats;
    AtHome([&] { stats = ring_->stats(); });
    return stats;
  }

  std::unique_ptr<reactor::Reactor> home_;
  Ring* ring_ = nullptr;
  std::vector<std::unique_ptr<Talker>> talkers_;
};

TEST_F(Uring, ManyConnectionsShareASystemCall) {
  Start();
  constexpr size_t kMany = 64;
  std::vector<Fd> others;
  AtHome([&] {
    for (size_t i = 0; i < kMany; ++i) {
      std::array<Fd, 2> ends = Pair();
      Meet(std::move(ends[0]));
      others.push_back(std::move(ends[1]));
    }
  });
  AtHome([] {});  // their reads are handed in
  const uint64_t before = Stats().hand_ins;
  AtHome([&] {
    for (auto& talker : talkers_) talker->Say("hello");
  });
  for (Fd& other : others) {
    std::array<char, 5> heard = {};
    EXPECT_EQ(recv(other.get(), heard.data(), heard.size(), MSG_WAITALL), 5);
    EXPECT_EQ(std::string(heard.data(), heard.size()), "hello");
  }
  EXPECT_LE(Stats().hand_ins - before, 4u);
}

// Every queue and pool is far too small for what goes on, and nothing is lost.
TEST_F(Uring, SmallRingsAreSlowAndNotWrong) {
  RingOptions tiny;
  tiny.orders = 2;
  tiny.outcomes = 2;
  tiny.buffers = 2;
  Start(tiny);
  constexpr size_t kPairs = 32;
  constexpr uint64_t kBytes = 300 * 1000;
  AtHome([&] {
    for (size_t i = 0; i < kPairs; ++i) {
      std::array<Fd, 2> ends = Pair();
      for (Fd& end : ends) {
        Talker::Manner manner;
        manner.landing = i % 2 == 0;
        manner.block_bytes_max = 20000;
        Meet(std::move(end), manner)->SayPattern(kBytes);
      }
    }
  });
  EXPECT_TRUE(Eventually([&] {
    return std::all_of(talkers_.begin(), talkers_.end(), [](const auto& talker) { return talker->heard == kBytes; });
  }));
  for (auto& talker : talkers_) EXPECT_TRUE(talker->as_pattern);
  AtHome([&] {
    for (auto& talker : talkers_) EXPECT_EQ(talker->fault(), "");
  });
  const RingStats stats = Stats();
  EXPECT_GT(stats.overflows, 0u);
  EXPECT_GT(stats.short_of_buffers, 0u);
}

// On one machine the kernel has to copy, and reports that: the next send does not try without a copy. The talker checks
// that its memory is released once, and overwrites it then.
TEST_F(Uring, LargeSendsStopLendingWhereTheKernelCopies) {
  Start();
  constexpr uint64_t kBytes = 16 << 20;
  AtHome([&] {
    std::array<Fd, 2> ends = Pair();
    Talker::Manner manner;
    manner.block_bytes_max = 1 << 20;
    Meet(std::move(ends[0]), manner)->SayPattern(kBytes);
    Meet(std::move(ends[1]), manner);
  });
  EXPECT_TRUE(Eventually([&] { return talkers_[1]->heard == kBytes; }));
  EXPECT_TRUE(talkers_[1]->as_pattern);
  const RingStats stats = Stats();
  if (!ring_->sends_without_copy()) GTEST_SKIP() << "this kernel always copies";
  EXPECT_EQ(stats.lent, 1u);
  EXPECT_EQ(stats.lent_in_vain, 1u);
}

// ---- memory that the kernel holds ----

// Waits for one landing, and sends nothing.
struct Lander final : ConnectionHandler {
  size_t Landing(Bytes* parts, size_t) override {
    parts[0] = Bytes(memory.data(), memory.size());
    return 1;
  }
  void OnLanded(size_t) override { ++calls; }
  size_t LookAhead() override { return 0; }
  void OnBytes(ConstBytes) override { ++calls; }
  void OnWritten(size_t) override { ++calls; }
  void OnClosed(Status) override { ++calls; }
  std::vector<uint8_t> memory = std::vector<uint8_t>(100000, 7);
  std::atomic<int> calls{0};
};

TEST_F(Uring, AConnectionThatGoesLeavesNoReadBehind) {
  Start();
  Lander lander;
  std::array<Fd, 2> ends = Pair();
  std::unique_ptr<Connection> connection;
  AtHome([&] {
    connection = Drive(std::move(ends[0]));
    connection->Start(&lander);
  });
  AtHome([] {});  // the read is with the kernel
  AtHome([&] { connection.reset(); });
  const std::string late(1000, 'x');
  (void)send(ends[1].get(), late.data(), late.size(), MSG_NOSIGNAL);
  char end = 0;
  EXPECT_LE(recv(ends[1].get(), &end, 1, 0), 0);  // the peer sees the end: no one reads any more
  AtHome([] {});
  EXPECT_EQ(lander.calls, 0);
  EXPECT_TRUE(std::all_of(lander.memory.begin(), lander.memory.end(), [](uint8_t byte) { return byte == 7; }));
}

// In every state that a write can be in: gathered, handed in, waiting for room, lent. AddressSanitizer does not see
// what the kernel reads; the peer does.
TEST_F(Uring, AConnectionThatGoesLeavesNoWriteBehind) {
  Start();
  for (const bool handed_in : {false, true}) {
    for (const size_t size : {size_t{1000}, size_t{64} << 20}) {
      Lander lander;
      std::array<Fd, 2> ends = Pair();
      std::unique_ptr<Connection> connection;
      std::vector<uint8_t> memory(size, 1);
      AtHome([&] {
        connection = Drive(std::move(ends[0]));
        connection->Start(&lander);
        ConstBytes part(memory.data(), memory.size());
        connection->Write(&part, 1);
        if (handed_in) return;
        connection.reset();
        memory.assign(size, uint8_t{2});
      });
      AtHome([&] {
        connection.reset();
        memory.assign(size, uint8_t{2});
      });
      std::vector<uint8_t> heard(1 << 16);
      for (ssize_t got; (got = recv(ends[1].get(), heard.data(), heard.size(), 0)) > 0;) {
        EXPECT_TRUE(std::all_of(heard.begin(), heard.begin() + got, [](uint8_t byte) { return byte == 1; }));
      }
    }
  }
}

TEST_F(Uring, ClosingWithAWriteThatWaitsEnds) {
  Start();
  std::array<Fd, 2> ends = Pair();
  Talker* talker = nullptr;
  AtHome([&] {
    Talker::Manner manner;
    manner.block_bytes_max = 32 << 20;
    talker = Meet(std::move(ends[0]), manner);
    talker->SayPattern(64 << 20);  // the peer reads nothing
  });
  EXPECT_TRUE(Eventually([&] { return talker->said > 0 || Stats().lent > 0; }));
  EXPECT_LT(Stats().hand_ins, 100u);  // it sleeps in the kernel until there is room
  AtHome([&] { talker->Close(); });
  EXPECT_TRUE(Eventually([&] { return talker->closed == 1; }));
  AtHome([&] { EXPECT_EQ(talker->fault(), ""); });
}

// ---- threads ----

// The kernel ties an order to the thread that hands it in. One that drove the loop and ended leaves a read behind.
TEST_F(Uring, AThreadThatOrderedAndEndedIsReplaced) {
  Start();
  std::array<Fd, 2> ends = Pair();
  Talker* talker = nullptr;
  // On the thread itself, where the loop is idle; it is tried until it was.
  std::atomic<bool> ran{false};
  ASSERT_TRUE(Eventually([&] {
    std::thread driver([&] {
      reactor::Task task = [&] { talker = Meet(std::move(ends[0])); };
      ran = home_->TryRunHere(task);
    });
    driver.join();
    return ran.load();
  }));
  for (const char* word : {"one", "two"}) {
    const uint64_t before = talker->heard;
    ASSERT_EQ(send(ends[1].get(), word, 3, MSG_NOSIGNAL), 3);
    EXPECT_TRUE(Eventually([&] { return talker->heard == before + 3; }));
  }
  AtHome([&] { EXPECT_EQ(talker->text(), "onetwo"); });
}

// ---- kernels that refuse ----

// From now on the system call fails in this thread and those that it starts.
void Forbid(long number, uint32_t error) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program = {static_cast<unsigned short>(std::size(filter)), filter};
  FUSEWIRE_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  FUSEWIRE_CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

std::unique_ptr<Transport> MakeDriven() { return MakeTcp({}, DriveByUring()); }

// The transport of two ends that dial each other; "" if nothing arrives.
std::string WireBetween(Transport& transport) {
  std::unique_ptr<reactor::Reactor> home = std::move(reactor::Reactor::Start(reactor::Options())).value();
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Dialing> dialing;
  Talker one(1), other(2);
  std::string wire;
  home->Run([&] {
    listener = std::move(transport.Listen(*home, {"127.0.0.1", 0}, [&](std::unique_ptr<Incoming> incoming) {
                 other.Meet(std::move(incoming->Adopt(*home)).value());
               })).value();
    dialing = transport.Dial(*home, {"127.0.0.1", listener->address().port}, 10 * kSecondNs,
                             [&](Result<std::unique_ptr<Connection>> made) {
                               wire = made.value()->wire();
                               one.Meet(std::move(made).value());
                               one.SayPattern(1000);
                             });
  });
  const bool heard = Eventually([&] { return other.heard == 1000; });
  home->Run([&] {
    one.Drop();
    other.Drop();
    dialing.reset();
    listener.reset();
  });
  return heard ? wire : "";
}

// A process of its own: the filter stays.
void RunForbidden(long number, uint32_t error) {
  static std::atomic<int> told{0};
  SetLogSink(
      [](LogLevel, const char* line, void*) {
        told += std::string(line).find("TCP runs on epoll") != std::string::npos;
        std::cerr << line << "\n";
      },
      nullptr);
  Forbid(number, error);
  std::unique_ptr<Transport> transport = MakeDriven(), another = MakeDriven();
  const bool fell_back = WireBetween(*transport) == "tcp" && WireBetween(*another) == "tcp";
  _exit(fell_back && told == 1 ? 0 : 1);
}

TEST(UringFallback, WhereTheKernelRefusesEpollServesAndTheLogSaysSoOnce) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  for (const long number : {kSysSetup, kSysEnter, kSysRegister}) {
    for (const int error : {EPERM, ENOSYS}) {
      EXPECT_EXIT(RunForbidden(number, static_cast<uint32_t>(error)), testing::ExitedWithCode(0),
                  "TCP runs on epoll instead of io_uring");
    }
  }
}

TEST_F(Uring, IsTakenWhereItWorks) {
  std::unique_ptr<Transport> transport = MakeDriven();
  EXPECT_EQ(WireBetween(*transport), "uring");
}

}  // namespace
}  // namespace uring
}  // namespace transport
}  // namespace fusewire
