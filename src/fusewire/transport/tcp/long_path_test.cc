// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// TCP between two hosts with a long path between them: each host is a network of its own, and all that leaves it
// arrives at the other one a while later.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "fusewire/base/clock.h"
#include "fusewire/reactor/home_test.h"
#include "fusewire/transport/talker_test.h"
#include "fusewire/transport/tcp/own_network_test.h"
#include "fusewire/transport/tcp/tcp.h"

namespace fusewire::transport {
namespace {

using reactor::AskHome;
using reactor::Eventually;

constexpr int64_t kOneWayNs = 100 * kMillisecondNs;
constexpr int kPacketBytesMax = 9000;

struct Host {
  Fd network;
  Fd path;  // what its kernel sends leaves here, packet by packet
  std::unique_ptr<reactor::Reactor> home;
};

bool SetAddress(int fd, ifreq* link, unsigned long request, const char* address) {
  sockaddr_in* in = reinterpret_cast<sockaddr_in*>(&link->ifr_addr);
  *in = {};
  in->sin_family = AF_INET;
  return inet_pton(AF_INET, address, &in->sin_addr) == 1 && ioctl(fd, request, link) == 0;
}

// For this thread and those that it starts.
bool MakeHost(const char* address, Host* host) {
  if (!OwnNetwork()) return false;
  host->path = Fd(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  ifreq link = {};
  std::strncpy(link.ifr_name, "path0", sizeof(link.ifr_name) - 1);
  link.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (!host->path.valid() || ioctl(host->path.get(), TUNSETIFF, &link) != 0) return false;
  const Fd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!SetAddress(fd.get(), &link, SIOCSIFADDR, address)) return false;
  if (!SetAddress(fd.get(), &link, SIOCSIFNETMASK, "255.255.255.0")) return false;
  link.ifr_mtu = kPacketBytesMax;
  if (ioctl(fd.get(), SIOCSIFMTU, &link) != 0) return false;
  link.ifr_flags = IFF_UP;
  if (ioctl(fd.get(), SIOCSIFFLAGS, &link) != 0) return false;
  host->network = Fd(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  host->home = std::move(reactor::Reactor::Start({})).value();
  return true;
}

// At home; sockets that it makes belong to the host.
void RunAt(const Host& host, const std::function<void()>& what) {
  std::thread([&] {
    EXPECT_EQ(setns(host.network.get(), CLONE_NEWNET), 0);
    AskHome(*host.home, [&what] {
      what();
      return true;
    });
  }).join();
}

// Carries packets both ways on a thread of its own.
class Path {
 public:
  Path(int one, int other) : fds_{one, other}, thread_([this] { Carry(); }) {}
  ~Path() {
    ends_ = true;
    thread_.join();
  }
  // The most that was ever on the way from the first end to the second.
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
    char packet[kPacketBytesMax];
    ssize_t got;
    for (int i = 0; i < 100 && (got = read(fds_[from], packet, sizeof(packet))) > 0; ++i) {
      under_way_[from].push_back({Clock::Real()->NowNs() + kOneWayNs, std::string(packet, static_cast<size_t>(got))});
      bytes_[from] += static_cast<size_t>(got);
    }
    if (from == 0 && bytes_[0] > bytes_max_) bytes_max_ = bytes_[0];
  }
  void Deliver(size_t from) {
    std::deque<Packet>* queue = &under_way_[from];
    for (const int64_t now_ns = Clock::Real()->NowNs(); !queue->empty() && queue->front().due_ns <= now_ns;) {
      const std::string& packet = queue->front().bytes;
      (void)!write(fds_[1 - from], packet.data(), packet.size());  // what has no room is lost, as on any path
      bytes_[from] -= packet.size();
      queue->pop_front();
    }
  }

  const int fds_[2];
  std::deque<Packet> under_way_[2];
  size_t bytes_[2] = {};
  std::atomic<size_t> bytes_max_{0};
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

// What one kernel lets another one keep on the way to it, when that is asked to.
bool KernelHoldsMegabytes() {
  size_t least = 0, usual = 0, most = 0;
  std::ifstream("/proc/sys/net/ipv4/tcp_rmem") >> least >> usual >> most;
  return most >= 6 << 20;
}

// 0: more than a mebibyte was on its way at once.
int FillALongPath() {
  constexpr uint64_t kBytes = 64 << 20;
  Host near, far;
  if (!MakeHost("10.83.0.1", &near) || !KernelHoldsMegabytes()) return kNotHere;
  bool made = false;
  std::thread([&] { made = MakeHost("10.83.0.2", &far); }).join();
  if (!made) return kNotHere;
  const Path path(near.path.get(), far.path.get());

  std::unique_ptr<Transport> tcp = MakeTcp({});
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Dialing> dialing;
  Talker speaker(1), hearer(2);
  std::atomic<int> met{0};
  RunAt(far, [&] {
    auto listening = tcp->Listen(*far.home, {"10.83.0.2", 0}, [&](std::unique_ptr<Incoming> incoming) {
      hearer.Meet(std::move(incoming->Adopt(*far.home)).value());
      ++met;
    });
    if (listening.ok()) listener = std::move(listening).value();
  });
  if (listener == nullptr) return 3;
  const uint16_t port = listener->address().port;
  RunAt(near, [&] {
    dialing =
        tcp->Dial(*near.home, {"10.83.0.2", port}, 5 * kSecondNs, [&](Result<std::unique_ptr<Connection>> made_one) {
          if (!made_one.ok()) return;
          speaker.Meet(std::move(made_one).value());
          speaker.SayPattern(kBytes);
          ++met;
        });
  });
  int code = 0;
  if (!Eventually([&] { return met == 2; })) code = 4;
  if (code == 0 && !Eventually([&] { return path.bytes_max() > 1 << 20 || hearer.heard == kBytes; })) code = 5;
  if (code == 0 && path.bytes_max() <= 1 << 20) code = 6;
  if (code == 0 && !hearer.as_pattern) code = 7;
  RunAt(near, [&] {
    dialing.reset();
    speaker.Drop();
  });
  RunAt(far, [&] {
    listener.reset();
    hearer.Drop();
  });
  return code;
}

// A window of a fixed size is a bandwidth limit that falls with the distance: 608 KiB are 3 MB/s here.
TEST(LongPath, HoldsWhatItCan) {
  const int code = CodeOf(&FillALongPath);
  if (code == kNotHere) GTEST_SKIP() << "no network namespaces with tunnels, or no large windows, can be had here";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace fusewire::transport
