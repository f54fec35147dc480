// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Which processes are our own. What two containers of one machine make of it is tested in tests/attack.
#include "fusewire/transport/shm/peer_process.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "fusewire/base/clock.h"
#include "fusewire/transport/lab_test.h"
#include "fusewire/transport/shm/control_message.h"

namespace fusewire::transport {
namespace {

// A socket whose other end is a process that does this and then connects.
Fd Met(void (*first)()) {
  const Fd place(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const UnixAddress name = SocketName("peer-process-test", static_cast<uint16_t>(getpid()));
  const timeval limit = {5, 0};  // of accept, in case that `first` ends the process
  if (setsockopt(place.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) != 0 ||
      bind(place.get(), name.get(), name.length) != 0 || listen(place.get(), 1) != 0) {
    return Fd();
  }
  if (fork() == 0) {
    first();
    const int dials = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (connect(dials, name.get(), name.length) != 0) _exit(1);
    char byte;
    (void)!recv(dials, &byte, 1, 0);  // until the other end is closed
    _exit(0);
  }
  return Fd(accept(place.get(), nullptr, nullptr));
}

void Nothing() {}

// The words of the refusal; empty: there is none.
std::string Refusal(const Fd& socket) {
  const Result<PeerProcess> process = PeerProcess::Of(socket.get());
  return process.ok() ? "" : process.status().ToString();
}
int Says(const std::string& words, const std::string& expected) {
  if (words.find(expected) != std::string::npos) return 0;
  (void)!write(STDERR_FILENO, words.c_str(), words.size());
  return 1;
}

// What these say belongs to the process, so that it is asked in one of its own.
void Expect(int (*in_child)()) {
  const int code = CodeOf(in_child);
  if (code == kNotHere) GTEST_SKIP() << "the system lets a process have no such namespace";
  EXPECT_EQ(code, 0);
}

TEST(PeerProcess, IsOneOfOurOwn) {
  Expect([] {
    const Fd socket = Met(Nothing);
    const Result<PeerProcess> process = PeerProcess::Of(socket.get());
    if (!process.ok()) return Says(process.status().ToString(), "no refusal");
    if (!process.value().CheckSender(process.value().pid()).ok()) return 3;
    return process.value().CheckSender(getpid()).code() == Code::kRefused ? 0 : 4;
  });
}

// From now on it is like any other process.
TEST(PeerProcess, ThatHasEndedHasNotSentAnything) {
  Expect([] {
    Fd socket = Met(Nothing);
    const Result<PeerProcess> process = PeerProcess::Of(socket.get());
    if (!process.ok()) return 3;
    socket.Close();
    int status = 0;
    if (wait(&status) != process.value().pid()) return 4;
    return process.value().CheckSender(process.value().pid()).code() == Code::kRefused ? 0 : 5;
  });
}

TEST(PeerProcess, AReusedProcessNumberIsRefused) {
  Expect([] {
    Fd socket = Met(Nothing);
    const Result<PeerProcess> process = PeerProcess::Of(socket.get());
    if (!process.ok()) return 3;
    const pid_t number = process.value().pid();
    socket.Close();
    if (wait(nullptr) != number) return 4;
    // The kernel counts in hundredths of a second.
    const int64_t later_ns = Clock::Real()->NowNs() + 30 * kMillisecondNs;
    while (Clock::Real()->NowNs() < later_ns) sched_yield();
    const pid_t next = ForkAs(number);
    if (next < 0) return kNotHere;
    if (next == 0) {
      pause();
      _exit(0);
    }
    const Status status = process.value().CheckSender(number);
    kill(next, SIGKILL);
    return Says(status.ToString(), "has ended, and another one has its number");
  });
}

TEST(PeerProcess, InAnotherPidNamespaceIsRefused) {
  Expect([] {
    if (!OwnNamespace(CLONE_NEWPID)) return kNotHere;
    return Says(Refusal(Met(Nothing)), "is in another pid namespace");
  });
}

TEST(PeerProcess, InAnotherUserNamespaceIsRefused) {
  Expect([] {
    const Fd socket = Met([] {
      if (unshare(CLONE_NEWUSER) != 0) _exit(kNotHere);
    });
    if (!socket.valid()) return kNotHere;
    return Says(Refusal(socket), geteuid() == 0 ? "is in another user namespace" : "cannot be seen");
  });
}

// With a /proc of another pid namespace, a number names another process there.
TEST(PeerProcess, IsNotLookedForInTheProcOfOthers) {
  Expect([] {
    if (!OwnNamespace(CLONE_NEWPID)) return kNotHere;
    return CodeOf([] { return Says(Refusal(Met(Nothing)), "/proc is that of another pid namespace"); });
  });
}

// All processes of other namespaces have the same number there.
TEST(PeerProcess, OfAUserWithoutANumberIsRefused) {
  Expect([] {
    if (unshare(CLONE_NEWUSER) != 0) return kNotHere;
    return Says(Refusal(Met(Nothing)), "which stands for every user without a number in this container");
  });
}

// Outside of containers, it is a user like any other.
TEST(PeerProcess, OfAUserWithThatNumberIsOneOfOurOwn) {
  Expect([] {
    uint64_t inside = 0, outside = 0, count = 0;
    std::ifstream("/proc/self/uid_map") >> inside >> outside >> count;
    if (geteuid() != 0 || count != UINT32_MAX) return kNotHere;
    // As after exec(): no other process can look into one that has just dropped its rights.
    if (setgid(65534) != 0 || setuid(65534) != 0 || prctl(PR_SET_DUMPABLE, 1) != 0) return kNotHere;
    const std::string words = Refusal(Met(Nothing));
    return words.empty() ? 0 : Says(words, "no refusal");
  });
}

// The kernel shows a process's namespaces only to those that may read its memory.
TEST(PeerProcess, ThatCannotBeSeenIsRefused) {
  Expect([] {
    constexpr uid_t kSomebody = 12345;
    if (geteuid() != 0 || setgid(kSomebody) != 0 || setuid(kSomebody) != 0) return kNotHere;
    return Says(Refusal(Met(Nothing)), "cannot be seen: stat of /proc/PID/ns");
  });
}

}  // namespace
}  // namespace fusewire::transport
