// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A lab for tests: hosts, which are network namespaces, and links between them. The Python tests have the same in
// tests/python/lab.py. Home: the thread that makes a host, and a thread of its own for each link. Owns: the namespaces;
// they end with their last thread, so that a test that is killed leaves nothing behind. Fails: where the system does
// not let this user make namespaces; the caller skips its test.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/if_tun.h>
#include <linux/sched.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <thread>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"
#include "fusewire/transport/socket_address.h"

namespace fusewire::transport {

// Moves this thread into a namespace of its own, such as CLONE_NEWPID; in a user namespace if only that is permitted.
inline bool OwnNamespace(int kind) { return unshare(kind) == 0 || unshare(CLONE_NEWUSER | kind) == 0; }

// An interface of this thread's network: up or down.
inline bool SetInterface(const char* name, bool up) {
  const Fd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq interface = {};
  std::strncpy(interface.ifr_name, name, sizeof(interface.ifr_name) - 1);
  interface.ifr_flags = up ? IFF_UP : 0;
  return ioctl(fd.get(), SIOCSIFFLAGS, &interface) == 0;
}

// Moves this thread into a network of its own, with its loopback interface up.
inline bool OwnNetwork() { return OwnNamespace(CLONE_NEWNET) && SetInterface("lo", true); }

// What `in_child` returns in a process of its own, as it changes what belongs to the process. -1: it was killed.
constexpr int kNotHere = 2;  // the system does not have what it needs
inline int CodeOf(int (*in_child)()) {
  const pid_t child = fork();
  if (child == 0) _exit(in_child());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// As fork(), with a chosen pid. -1 if the system does not permit that; no process may have the pid.
inline pid_t ForkAs(pid_t number) {
  clone_args how = {};
  how.exit_signal = SIGCHLD;
  how.set_tid = reinterpret_cast<uint64_t>(&number);
  how.set_tid_size = 1;
  return static_cast<pid_t>(syscall(SYS_clone3, &how, sizeof(how)));
}

namespace lab {

// A network with one interface, eth0, into which a link may be plugged.
class Host {
 public:
  static constexpr int kPacketBytesMax = 9000;

  // Null: it can't be made here. Who is not root calls OwnNetwork() first, in a process of its own.
  static std::unique_ptr<Host> Make(const char* address) {
    auto host = std::make_unique<Host>();
    const Fd before = NetworkOfThisThread();
    if (unshare(CLONE_NEWNET) != 0) return nullptr;
    host->network_ = NetworkOfThisThread();
    const bool made = SetInterface("lo", true) && host->AddInterface(address);
    FUSEWIRE_CHECK(setns(before.get(), CLONE_NEWNET) == 0);
    return made ? std::move(host) : nullptr;
  }

  // On this thread. Sockets, threads and processes that `what` makes belong to the host.
  template <typename What>
  void Run(What what) const {
    const Fd before = NetworkOfThisThread();
    FUSEWIRE_CHECK(setns(network_.get(), CLONE_NEWNET) == 0);
    what();
    FUSEWIRE_CHECK(setns(before.get(), CLONE_NEWNET) == 0);
  }
  // Down: the host itself knows that its cable is pulled.
  [[nodiscard]] bool SetUp(bool up) const {
    bool done = false;
    Run([up, &done] { done = SetInterface("eth0", up); });
    return done;
  }
  // What its kernel sends is read here, packet by packet, and what it receives is written.
  int packets() const { return packets_.get(); }

 private:
  static Fd NetworkOfThisThread() { return Fd(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)); }
  bool AddInterface(const char* address) {
    packets_ = Fd(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
    ifreq interface = {};
    std::strncpy(interface.ifr_name, "eth0", sizeof(interface.ifr_name) - 1);
    interface.ifr_flags = IFF_TUN | IFF_NO_PI;
    if (!packets_.valid() || ioctl(packets_.get(), TUNSETIFF, &interface) != 0) return false;
    const Fd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!SetAddress(fd.get(), &interface, SIOCSIFADDR, address)) return false;
    if (!SetAddress(fd.get(), &interface, SIOCSIFNETMASK, "255.255.255.0")) return false;
    interface.ifr_mtu = kPacketBytesMax;
    return ioctl(fd.get(), SIOCSIFMTU, &interface) == 0 && SetInterface("eth0", true);
  }
  static bool SetAddress(int fd, ifreq* interface, unsigned long request, const char* address) {
    sockaddr_in* in = reinterpret_cast<sockaddr_in*>(&interface->ifr_addr);
    *in = {};
    in->sin_family = AF_INET;
    return inet_pton(AF_INET, address, &in->sin_addr) == 1 && ioctl(fd, request, interface) == 0;
  }

  Fd network_;
  Fd packets_;
};

// Carries the packets of two hosts, each to the other one.
class Link {
 public:
  Link(const Host& first, const Host& second, int64_t delay_ns = 0)
      : delay_ns_(delay_ns), fds_{first.packets(), second.packets()}, thread_([this] { Carry(); }) {}
  ~Link() {
    ends_ = true;
    thread_.join();
  }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Packets of the host `from`, 0 or 1, get lost, or arrive again.
  void Cut(size_t from) { cut_[from] = true; }
  void Restore(size_t from) { cut_[from] = false; }
  // The most that was ever on the way from the first host to the second.
  size_t bytes_max() const { return bytes_max_; }

 private:
  struct Packet {
    int64_t due_ns;
    std::string bytes;
  };

  void Carry() {
    while (!ends_) {
      pollfd ends[] = {{fds_[0], POLLIN, 0}, {fds_[1], POLLIN, 0}};
      (void)poll(ends, 2, 1);
      for (size_t from : {0, 1}) {
        Take(from);
        Deliver(from);
      }
    }
  }
  void Take(size_t from) {
    char packet[Host::kPacketBytesMax];
    ssize_t got;
    for (int i = 0; i < 100 && (got = read(fds_[from], packet, sizeof(packet))) > 0; ++i) {
      if (cut_[from]) continue;
      under_way_[from].push_back({Clock::Real()->NowNs() + delay_ns_, std::string(packet, static_cast<size_t>(got))});
      bytes_[from] += static_cast<size_t>(got);
    }
    if (from == 0 && bytes_[0] > bytes_max_) bytes_max_ = bytes_[0];
  }
  void Deliver(size_t from) {
    std::deque<Packet>* queue = &under_way_[from];
    for (const int64_t now_ns = Clock::Real()->NowNs(); !queue->empty() && queue->front().due_ns <= now_ns;) {
      const std::string& packet = queue->front().bytes;
      (void)!write(fds_[1 - from], packet.data(), packet.size());  // what has no room is lost, as on any link
      bytes_[from] -= packet.size();
      queue->pop_front();
    }
  }

  const int64_t delay_ns_;
  const int fds_[2];
  std::deque<Packet> under_way_[2];
  size_t bytes_[2] = {};
  std::atomic<size_t> bytes_max_{0};
  std::atomic<bool> cut_[2] = {};
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

}  // namespace lab
}  // namespace fusewire::transport
