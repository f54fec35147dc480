// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The particulars of shared memory: the peers that are met, lying peers, and Writes that wait for their loans. The
// contract of a transport is tested in tests/conformance, death in tests/faults.
#include "fusewire/transport/shm/peer_process.h"
#include "fusewire/transport/transports.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/log.h"
#include "fusewire/base/random.h"
#include "fusewire/reactor/doorbell.h"
#include "fusewire/reactor/home_test.h"
#include "fusewire/transport/lab_test.h"
#include "fusewire/transport/shm/control_message.h"
#include "fusewire/transport/shm/segment.h"

namespace fusewire::transport {
namespace {

using reactor::AskHome;
using reactor::Eventually;
using testing::HasSubstr;

constexpr uint32_t kSmallRing = 4096;

// ---- who is met ----

// Keeps the bytes that it receives.
class Listening final : public ConnectionHandler {
 public:
  void Meet(std::unique_ptr<Connection> made) {
    connection = std::move(made);
    connection->Start(this);
  }
  size_t Landing(Bytes*, size_t) override { return 0; }
  void OnLanded(size_t) override {}
  size_t LookAhead() override { return 4096; }
  void OnBytes(ConstBytes bytes) override { heard += bytes.size; }
  void OnWritten(size_t bytes) override { written.push_back(bytes); }
  void OnClosed(Status status) override {
    why = std::move(status);
    closed = true;
  }
  std::unique_ptr<Connection> connection;
  std::atomic<size_t> heard{0};
  std::vector<size_t> written;  // at home
  std::atomic<bool> closed{false};
  Status why;
};

class ShmConnections : public testing::Test {
 protected:
  ShmConnections() : home_(std::move(reactor::Reactor::Start({})).value()), shm_(MakeShm()) {
    SetLogSink([](LogLevel, const char* line, void* self) { static_cast<ShmConnections*>(self)->log_ += line; }, this);
  }
  ~ShmConnections() override {
    AskHome(*home_, [this] {
      dialing_.reset();
      made_.reset();
      listener_.reset();
      met_.clear();
    });
    SetLogSink(nullptr, nullptr);
  }
  void Listen() {
    AskHome(*home_, [this] {
      listener_ = std::move(shm_->Listen(*home_, {"127.0.0.1", 0}, [this](std::unique_ptr<Incoming> incoming) {
                    Result<std::unique_ptr<Connection>> connection = incoming->Adopt(*home_);
                    if (connection.ok()) {
                      met_.push_back(std::make_unique<Listening>());
                      met_.back()->Meet(std::move(connection).value());
                    } else {
                      refused_ = connection.status().ToString();
                    }
                    ++arrived_;
                  })).value();
    });
  }
  std::string Logged() {
    return AskHome(*home_, [this] { return log_; });
  }
  // A process that speaks for itself.
  Fd Knock() {
    Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    UnixAddress place = SocketName("127.0.0.1", listener_->address().port);
    EXPECT_EQ(connect(socket.get(), place.get(), place.length), 0);
    return socket;
  }
  // What the listener answers to a knock: its nonce.
  static uint64_t KnockAt(const Fd& socket) {
    ShmControlMessage knock;
    knock.kind = ShmControlKind::kKnock;
    knock.nonce = 7;
    EXPECT_TRUE(SendControl(socket.get(), knock, nullptr).ok());
    std::optional<Result<Packet>> answer;
    EXPECT_TRUE(Eventually([&] {
      answer = ReceiveControl(socket.get(), ShmControlKind::kKnock);
      return answer.has_value();
    }));
    if (!answer->ok()) return 0;
    EXPECT_EQ(answer->value().message.answer, 7u);
    return answer->value().message.nonce;
  }
  static bool Ended(const Fd& socket) {
    return Eventually([&] {
      char byte[64];
      ssize_t got = recv(socket.get(), byte, sizeof(byte), MSG_DONTWAIT);
      return got == 0 || (got < 0 && errno == ECONNRESET);
    });
  }
  reactor::DoorbellFiles BellFiles() {
    return AskHome(*home_, [this] { return home_->OpenDoorbell().value()->files(); });
  }
  // A dialler that greets as it should; what it does then is up to the test.
  struct Liar {
    Fd socket;
    std::unique_ptr<Segment> segment;
  };
  Liar Greet() {
    const int before = arrived_;
    Liar liar;
    liar.socket = Knock();
    Fd file;
    liar.segment = std::move(Segment::Make(kSmallRing, &file)).value();
    ShmControlMessage hello;
    hello.answer = KnockAt(liar.socket);
    hello.ring_bytes = kSmallRing;
    hello.probe_address = ProbeAddress();
    hello.probe_word = ProbeWord();
    auto [rung, asleep, event] = BellFiles();
    const int files[] = {file.get(), rung, asleep, event};
    EXPECT_TRUE(SendControl(liar.socket.get(), hello, files).ok());
    EXPECT_TRUE(Eventually([&] { return arrived_ > before; }));
    return liar;
  }
  Status Dial(Transport& transport, const Address& address) {
    std::atomic<bool> done{false};
    Status outcome;
    AskHome(*home_, [&] {
      dialing_ = transport.Dial(*home_, address, 5 * kSecondNs, [&](Result<std::unique_ptr<Connection>> made) {
        outcome = made.status();
        if (made.ok()) made_ = std::move(made).value();
        done = true;
      });
    });
    EXPECT_TRUE(Eventually([&] { return done.load(); }));
    return outcome;
  }

  std::unique_ptr<reactor::Reactor> home_;
  std::unique_ptr<Transport> shm_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Dialing> dialing_;
  std::unique_ptr<Connection> made_;
  std::vector<std::unique_ptr<Listening>> met_;
  std::atomic<int> arrived_{0};
  std::string refused_, log_;  // at home
};

TEST_F(ShmConnections, AStrangersGreetingEndsItsConnection) {
  Listen();
  Fd file;
  auto segment = Segment::Make(kSmallRing, &file);
  const auto [rung, asleep, event] = BellFiles();
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  ShmControlMessage good;
  good.ring_bytes = kSmallRing;
  ShmControlMessage old = good, other = good, wide = good;
  old.version = 99;
  other.magic = 1;
  wide.ring_bytes = 1u << 31;
  struct Bad {
    ShmControlMessage message;
    std::vector<int> files;
  };
  for (const Bad& bad : {Bad{good, {}}, Bad{good, {file.get(), rung, asleep}}, Bad{good, {null, rung, asleep, event}},
                         Bad{good, {file.get(), rung, asleep, null}}, Bad{good, {file.get(), null, asleep, event}},
                         Bad{old, {file.get(), rung, asleep, event}}, Bad{other, {file.get(), rung, asleep, event}},
                         Bad{wide, {file.get(), rung, asleep, event}}}) {
    Fd socket = Knock();
    ShmControlMessage message = bad.message;
    message.answer = KnockAt(socket);
    const auto packet = EncodeControl(message);
    ASSERT_EQ(SendPacket(socket.get(), ConstBytes(packet.data(), packet.size()), bad.files.data(), bad.files.size()),
              static_cast<ssize_t>(packet.size()));
    EXPECT_TRUE(Ended(socket));
  }
  // One that answers no knock of ours, or another one.
  for (const bool knocks : {false, true}) {
    Fd socket = Knock();
    ShmControlMessage message = good;
    if (knocks) message.answer = KnockAt(socket) + 1;
    const int files[] = {file.get(), rung, asleep, event};
    ASSERT_TRUE(SendControl(socket.get(), message, files).ok());
    EXPECT_TRUE(Ended(socket));
  }
  Fd socket = Knock();
  ASSERT_EQ(send(socket.get(), "GET / HTTP/1.1", 14, 0), 14);
  EXPECT_TRUE(Ended(socket));
  EXPECT_TRUE(met_.empty());
  EXPECT_TRUE(Dial(*shm_, listener_->address()).ok());  // others are none the worse for it
  close(null);
}

TEST_F(ShmConnections, ALiarInSharedMemoryCostsItsConnection) {
  Listen();
  for (uint64_t filled : {uint64_t{kSmallRing} + 8, UINT64_MAX, uint64_t{4}}) {
    Liar liar = Greet();
    liar.segment->own().filled.store(filled);
    AskHome(*home_, [&] { met_.back()->connection->Look(); });
    EXPECT_TRUE(Ended(liar.socket));
    EXPECT_TRUE(Eventually([&] { return met_.back()->closed.load(); }));
    EXPECT_EQ(met_.back()->why.code(), Code::kCorrupt) << met_.back()->why.ToString();
  }
}

// Random words all over the shared memory, for a while: the connection ends in an error, or goes on.
TEST_F(ShmConnections, GarbageAllOverTheMemoryIsSurvived) {
  const uint64_t seed = SystemRandom64();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  Listen();
  for (int round = 0; round < 50; ++round) {
    Liar liar = Greet();
    for (int i = 0; i < 20; ++i) {
      for (uint32_t at = 0; at < kSmallRing; at += 8) {
        const uint32_t words[] = {static_cast<uint32_t>(random.Below(64)), static_cast<uint32_t>(random.Below(4))};
        std::memcpy(liar.segment->own_ring() + at, words, sizeof(words));
      }
      Half& half = liar.segment->own();
      half.filled.store(random.Chance(0.8) ? random.Below(kSmallRing) & ~uint64_t{7} : random.Next());
      half.taken.store(random.Next());
      half.loans_read.store(random.Next());
      half.can_read.store(static_cast<uint32_t>(random.Next()));
      AskHome(*home_, [&] {
        if (!met_.back()->closed) met_.back()->connection->Look();
      });
    }
    liar.socket.Close();
    EXPECT_TRUE(Eventually([&] { return met_.back()->closed.load(); }));
  }
}

TEST_F(ShmConnections, ASecondDoorbellIsRefused) {
  Listen();
  Liar liar = Greet();
  ShmControlMessage bell;
  bell.kind = ShmControlKind::kBell;
  auto [rung, asleep, event] = BellFiles();
  const int files[] = {rung, asleep, event};
  ASSERT_TRUE(SendControl(liar.socket.get(), bell, files).ok());
  EXPECT_TRUE(Ended(liar.socket));
}

// A reader that is busy finds the next Write behind the loans that it has not read.
TEST_F(ShmConnections, AWriteIsTakenBehindOneWhoseLoansAreUnread) {
  Listen();
  ASSERT_TRUE(Dial(*shm_, listener_->address()).ok());
  Listening writer;
  const std::string lent(200'000, 'l'), more(100'000, 'm');
  auto take = [](Connection& connection, ConstBytes bytes) { connection.Write(&bytes, 1); };
  AskHome(*home_, [&] { writer.Meet(std::move(made_)); });
  AskHome(*home_, [&] {
    take(*writer.connection, lent);
    EXPECT_TRUE(writer.connection->TakesMore());
    take(*writer.connection, ConstBytes(more.data(), 100));  // nothing lent, and yet not before the other
    EXPECT_FALSE(writer.connection->TakesMore());
    EXPECT_TRUE(writer.written.empty());  // nobody reads before we return
    return true;
  });
  auto answers = [&](size_t count) {
    return Eventually([&] { return AskHome(*home_, [&] { return writer.written.size() == count; }); });
  };
  ASSERT_TRUE(answers(2));
  AskHome(*home_, [&] {
    EXPECT_EQ(writer.written, (std::vector<size_t>{lent.size(), 100}));
    EXPECT_FALSE(writer.connection->TakesMore());
    take(*writer.connection, more);
    take(*writer.connection, lent);
  });
  ASSERT_TRUE(answers(4));
  AskHome(*home_, [&] {
    EXPECT_EQ(met_[0]->heard, 2 * lent.size() + more.size() + 100);
    writer.connection.reset();
  });
}

TEST_F(ShmConnections, AnotherHostIsNotMet) {
  Status status = Dial(*shm_, {"192.0.2.1", 5555});
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_THAT(status.cause(), HasSubstr("not this machine"));
}

// A process of another user that takes our name is refused. Needs root, to become another user.
TEST_F(ShmConnections, AnotherUserIsRefusedByBothEnds) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  Listen();
  UnixAddress ours = SocketName("127.0.0.1", listener_->address().port), theirs = SocketName("127.0.0.1", 9);
  int ready[2], end[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(end, O_CLOEXEC), 0);
  pid_t child = fork();
  if (child == 0) {  // system calls only
    char outcome = 0;
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(1);
    int dials = socket(AF_UNIX, SOCK_SEQPACKET, 0), listens = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (bind(listens, theirs.get(), theirs.length) != 0 || listen(listens, 8) != 0) _exit(2);
    if (connect(dials, ours.get(), ours.length) != 0) _exit(3);
    char byte;
    outcome = recv(dials, &byte, 1, 0) <= 0 ? 'r' : 'w';
    if (write(ready[1], &outcome, 1) != 1) _exit(4);
    close(end[1]);
    (void)!read(end[0], &byte, 1);
    _exit(0);
  }
  char outcome = 0;
  close(ready[1]);
  ASSERT_EQ(read(ready[0], &outcome, 1), 1);
  EXPECT_EQ(outcome, 'r');
  Status status = Dial(*shm_, {"127.0.0.1", 9});
  EXPECT_EQ(status.code(), Code::kRefused) << status.ToString();
  EXPECT_THAT(status.cause(), HasSubstr("65534"));
  // Together with TCP: one log line with the reason, and a connection over TCP.
  std::unique_ptr<Transport> nearest = MakeNearest(MakeShm(), MakeTcp({}));
  EXPECT_THAT(Dial(*nearest, {"127.0.0.1", 9}).cause(), HasSubstr("refused"));
  EXPECT_THAT(Logged(), HasSubstr("127.0.0.1:9 is not reached over shared memory"));
  AskHome(*home_, [&] { dialing_.reset(); });
  close(end[1]);
  int exit_status = 0;
  ASSERT_EQ(waitpid(child, &exit_status, 0), child);
  EXPECT_EQ(exit_status, 0);
  EXPECT_TRUE(met_.empty());
  for (int fd : {ready[0], end[0]}) close(fd);
}

// The process that connected has ended before it is looked at, and one of ours has its number since. Needs root, to
// choose the number.
TEST_F(ShmConnections, ANumberThatAnotherProcessHasNowProvesNothing) {
  Listen();
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const UnixAddress place = SocketName("127.0.0.1", listener_->address().port);
  pid_t innocent = -1;
  AskHome(*home_, [&] {  // so that nothing is accepted meanwhile
    const pid_t stranger = fork();
    if (stranger == 0) _exit(connect(socket.get(), place.get(), place.length) == 0 ? 0 : 1);
    int status = 1;
    waitpid(stranger, &status, 0);
    EXPECT_EQ(status, 0);
    innocent = ForkAs(stranger);
    if (innocent == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // with home_'s thread
      pause();
      _exit(0);
    }
  });
  if (innocent < 0) GTEST_SKIP() << "no process may be given a number here: " << std::strerror(errno);
  Fd file;
  const auto segment = Segment::Make(kSmallRing, &file);
  ShmControlMessage hello;
  hello.ring_bytes = kSmallRing;
  hello.answer = KnockAt(socket);
  EXPECT_NE(hello.answer, 0u);  // so far, it looks like the innocent one
  const auto [rung, asleep, event] = BellFiles();
  const int files[] = {file.get(), rung, asleep, event};
  EXPECT_TRUE(SendControl(socket.get(), hello, files).ok());
  EXPECT_TRUE(Ended(socket));
  EXPECT_EQ(arrived_, 0);
  EXPECT_THAT(Logged(), HasSubstr("process " + std::to_string(innocent) + " began the meeting, and process " +
                                  std::to_string(getpid()) + " answers"));
  kill(innocent, SIGKILL);
  waitpid(innocent, nullptr, 0);
}

// A process that dropped its rights may read itself, and no neighbour may: what tasks of one user in a container see.
TEST(Lending, IsWhatANeighbourMayDo) {
  const pid_t child = fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (geteuid() == 0 && (setgid(kNobody) != 0 || setuid(kNobody) != 0)) _exit(2);
    if (prctl(PR_SET_DUMPABLE, 0) != 0) _exit(2);
    if (!CanRead(getpid(), ProbeAddress(), ProbeWord())) _exit(3);
    _exit(MayLend() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << WEXITSTATUS(status);
}

TEST_F(ShmConnections, NearestTakesSharedMemoryOnOneHostAndTcpElsewhere) {
  std::unique_ptr<Transport> nearest = MakeNearest(MakeShm(), MakeTcp({}));
  std::unique_ptr<Transport> tcp = MakeTcp({});
  std::unique_ptr<Listener> both, one;
  AskHome(*home_, [&] {
    both = std::move(nearest->Listen(*home_, {"127.0.0.1", 0}, [](auto) {})).value();
    one = std::move(tcp->Listen(*home_, {"127.0.0.1", 0}, [](auto) {})).value();
  });
  ASSERT_TRUE(Dial(*nearest, both->address()).ok());
  AskHome(*home_, [&] { EXPECT_STREQ(made_->wire(), "shm"); });
  ASSERT_TRUE(Dial(*nearest, one->address()).ok());
  AskHome(*home_, [&] {
    EXPECT_STREQ(made_->wire(), "tcp");
    made_.reset();
    dialing_.reset();
    both.reset();
    one.reset();
  });
  EXPECT_EQ(Logged(), "");
}

}  // namespace
}  // namespace fusewire::transport
