// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/shm/gathering.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "fusewire/base/clock.h"
#include "fusewire/reactor/cancel.h"
#include "fusewire/transport/lab_test.h"

namespace fusewire::transport {
namespace {

int64_t In(int64_t ns) { return Clock::Real()->NowNs() + ns; }

bool Ended(const Fd& life, int wait_ms) {
  pollfd look{life.get(), POLLIN, 0};
  return poll(&look, 1, wait_ms) == 1;
}

TEST(Gathering, AllLeaveWithTheFileAndALifeLineToEveryOther) {
  constexpr int kCount = 5;
  auto gathering = Gathering::Open();
  ASSERT_TRUE(gathering.ok()) << gathering.status().ToString();
  const Fd file(memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(write(file.get(), "memory", 6), 6);
  std::vector<std::thread> threads;
  for (int number = 0; number < kCount; ++number) {
    threads.emplace_back([&, number] {
      auto gathered = number == 0 ? gathering.value()->Hand(file.get(), kCount, In(5 * kSecondNs), nullptr)
                                  : ComeTo(gathering.value()->name(), number, kCount, In(5 * kSecondNs), nullptr);
      ASSERT_TRUE(gathered.ok()) << gathered.status().ToString();
      char text[6];
      EXPECT_EQ(pread(gathered.value().file.get(), text, sizeof(text), 0), 6);
      EXPECT_EQ(std::string(text, 6), "memory");
      ASSERT_EQ(gathered.value().lives.size(), static_cast<size_t>(kCount));
      for (int other = 0; other < kCount; ++other) {
        const Fd& life = gathered.value().lives[static_cast<size_t>(other)];
        EXPECT_EQ(life.valid(), other != number);
        EXPECT_FALSE(life.valid() && Ended(life, 0));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Gathering, ALifeLineSaysThatItsProcessHasEnded) {
  auto gathering = Gathering::Open();
  ASSERT_TRUE(gathering.ok());
  const pid_t child = fork();
  if (child == 0) {
    auto gathered = ComeTo(gathering.value()->name(), 1, 2, In(5 * kSecondNs), nullptr);
    if (!gathered.ok()) _exit(1);
    pause();
  }
  const Fd file(memfd_create("test", MFD_CLOEXEC));
  auto gathered = gathering.value()->Hand(file.get(), 2, In(5 * kSecondNs), nullptr);
  ASSERT_TRUE(gathered.ok()) << gathered.status().ToString();
  EXPECT_FALSE(Ended(gathered.value().lives[1], 20));
  kill(child, SIGKILL);
  EXPECT_TRUE(Ended(gathered.value().lives[1], 1000));
  waitpid(child, nullptr, 0);
}

TEST(Gathering, AMissingRankEndsItAtTheDeadlineAndACancelSooner) {
  auto gathering = Gathering::Open();
  ASSERT_TRUE(gathering.ok());
  const Fd file(memfd_create("test", MFD_CLOEXEC));
  EXPECT_EQ(gathering.value()->Hand(file.get(), 2, In(30 * kMillisecondNs), nullptr).status().code(), Code::kTimeout);
  // Before it begins, and while it sleeps: at once.
  for (const bool before : {true, false}) {
    reactor::CancelToken cancel;
    std::thread canceller([&cancel] { cancel.Cancel(); });
    if (before) canceller.join();
    const int64_t began_ns = Clock::Real()->NowNs();
    EXPECT_EQ(gathering.value()->Hand(file.get(), 2, In(60 * kSecondNs), &cancel).status().code(), Code::kCancelled);
    EXPECT_LT(Clock::Real()->NowNs() - began_ns, kSecondNs);
    if (!before) canceller.join();
  }
  // Nobody hands anything out, and nobody is there.
  EXPECT_EQ(ComeTo(gathering.value()->name(), 1, 2, In(30 * kMillisecondNs), nullptr).status().code(), Code::kTimeout);
  EXPECT_EQ(ComeTo("fusewire-gathering-of-nobody", 1, 2, In(kSecondNs), nullptr).status().code(), Code::kUnavailable);
}

TEST(Gathering, WaitingRanksHearThatItIsOver) {
  auto gathering = Gathering::Open();
  ASSERT_TRUE(gathering.ok());
  const Fd file(memfd_create("test", MFD_CLOEXEC));
  std::thread comer([name = gathering.value()->name()] {
    const int64_t begin_ns = Clock::Real()->NowNs();
    EXPECT_EQ(ComeTo(name, 1, 3, In(20 * kSecondNs), nullptr).status().code(), Code::kUnavailable);
    EXPECT_LT(Clock::Real()->NowNs() - begin_ns, 10 * kSecondNs);
  });
  EXPECT_EQ(gathering.value()->Hand(file.get(), 3, In(100 * kMillisecondNs), nullptr).status().code(), Code::kTimeout);
  gathering.value().reset();
  comer.join();
}

// Twice one number, or a number of another count: no rank of this gathering.
TEST(Gathering, AStrangerEndsIt) {
  auto gathering = Gathering::Open();
  ASSERT_TRUE(gathering.ok());
  const Fd file(memfd_create("test", MFD_CLOEXEC));
  std::thread other(
      [&] { EXPECT_FALSE(ComeTo(gathering.value()->name(), 1, 3, In(200 * kMillisecondNs), nullptr).ok()); });
  EXPECT_EQ(gathering.value()->Hand(file.get(), 2, In(5 * kSecondNs), nullptr).status().code(), Code::kCorrupt);
  gathering.value().reset();
  other.join();
}

// What an honest rank would not do: it does not look at who is there. 0: it gets nothing.
int KnockAsNumberOne(const std::string& name, int ready) {
  const Fd place(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un where = {};
  where.sun_family = AF_UNIX;
  name.copy(where.sun_path + 1, name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (connect(place.get(), reinterpret_cast<const sockaddr*>(&where), length) != 0) return 3;
  Knock knock;
  knock.number = 1;
  knock.count = 2;
  const auto packet = EncodeKnock(knock);
  if (send(place.get(), packet.data(), packet.size(), 0) != ssize_t{kKnockBytes}) return 4;
  char byte = 0;
  if (write(ready, &byte, 1) != 1) return 5;
  return recv(place.get(), &byte, 1, 0) <= 0 ? 0 : 6;
}

// Of the same user, and able to look: it reads the name where the system lists those of a network namespace.
TEST(Gathering, AProcessOfAnotherContainerGetsNothingAndDelaysNoRank) {
  auto gathering = Gathering::Open();
  ASSERT_TRUE(gathering.ok());
  const Fd file(memfd_create("test", MFD_CLOEXEC));
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (!OwnNamespace(CLONE_NEWPID)) _exit(kNotHere);
    const pid_t apart = fork();
    if (apart == 0) _exit(KnockAsNumberOne(gathering.value()->name(), ready[1]));
    int status = 0;
    waitpid(apart, &status, 0);
    _exit(WEXITSTATUS(status));
  }
  close(ready[1]);
  char byte = 0;
  const bool came = read(ready[0], &byte, 1) == 1;
  close(ready[0]);
  std::thread one_of_ours([&] {
    auto come = ComeTo(gathering.value()->name(), 1, 2, In(5 * kSecondNs), nullptr);
    EXPECT_TRUE(come.ok()) << come.status().ToString();
  });
  auto hand = gathering.value()->Hand(file.get(), 2, In(5 * kSecondNs), nullptr);
  EXPECT_TRUE(hand.ok()) << hand.status().ToString();
  one_of_ours.join();
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == kNotHere) GTEST_SKIP() << "the system lets a process have no pid namespace";
  EXPECT_TRUE(came);
  EXPECT_EQ(status, 0);
}

// A process that the program starts later must not hold our memory.
TEST(Gathering, LeavesNothingToProgramsThatAreStarted) {
  auto gathering = Gathering::Open();
  ASSERT_TRUE(gathering.ok());
  const Fd file(memfd_create("test", MFD_CLOEXEC));
  std::thread other([&] {
    auto come = ComeTo(gathering.value()->name(), 1, 2, In(5 * kSecondNs), nullptr);
    ASSERT_TRUE(come.ok()) << come.status().ToString();
    EXPECT_NE(fcntl(come.value().file.get(), F_GETFD) & FD_CLOEXEC, 0);
    EXPECT_NE(fcntl(come.value().lives[0].get(), F_GETFD) & FD_CLOEXEC, 0);
  });
  auto hand = gathering.value()->Hand(file.get(), 2, In(5 * kSecondNs), nullptr);
  other.join();
  ASSERT_TRUE(hand.ok()) << hand.status().ToString();
  EXPECT_NE(fcntl(hand.value().file.get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_NE(fcntl(hand.value().lives[1].get(), F_GETFD) & FD_CLOEXEC, 0);
}

// The name comes from another rank: it may belong to a listener that never accepts.
TEST(Gathering, AFullOneIsReportedInTime) {
  const Fd full(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const std::string name = "fusewire-test-full-" + std::to_string(getpid());
  sockaddr_un place = {};
  place.sun_family = AF_UNIX;
  name.copy(place.sun_path + 1, name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  ASSERT_EQ(bind(full.get(), reinterpret_cast<const sockaddr*>(&place), length), 0);
  ASSERT_EQ(listen(full.get(), 0), 0);
  const Fd first(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(connect(first.get(), reinterpret_cast<const sockaddr*>(&place), length), 0);
  EXPECT_EQ(ComeTo(name, 1, 2, In(100 * kMillisecondNs), nullptr).status().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace fusewire::transport
