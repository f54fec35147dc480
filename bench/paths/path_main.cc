// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A long path: hosts, which are network namespaces, and a network between them that delays packets and loses some.
//   bench_path --hosts 2 --rtt-us 10000 --loss 0.001 --mbits 1000
// It prints one line for each host, the file of its namespace (for nsenter --net=FILE) and its address, and carries
// packets until its input ends or its parent dies. The hosts end with it. Only root may make them.
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "bench/harness/harness.h"

namespace fusewire::bench {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

// As in most clusters: jumbo frames.
constexpr int kPacketBytesMax = 9000;
constexpr int kHostsMax = 16;
// What does not fit is lost. More than TCP has under way.
constexpr size_t kUnderWayBytesMax = 256 << 20;
constexpr int kPacketsPerTurn = 64;
constexpr size_t kDestinationAt = 16;  // of an IPv4 header

struct PathOptions {
  int hosts = 2;
  microseconds round_trip{0};
  double loss = 0;
  double mbits = 0;  // what each host can send in a second; 0: as much as it wants
};

void Must(bool good, const char* what) {
  if (!good) DieOfErrno(what);
}

// A network with one interface, eth0, whose packets are read and written at `packets`.
struct Host {
  int network;  // the file of the namespace
  int packets;
};

void SetInterface(int socket, ifreq* interface, unsigned long request, const std::string& address) {
  auto* in = reinterpret_cast<sockaddr_in*>(&interface->ifr_addr);
  *in = {};
  in->sin_family = AF_INET;
  Must(inet_pton(AF_INET, address.c_str(), &in->sin_addr) == 1, "an address");
  Must(ioctl(socket, request, interface) == 0, "setting an address");
}

void RaiseInterface(int socket, const char* name) {
  ifreq interface = {};
  std::strncpy(interface.ifr_name, name, sizeof(interface.ifr_name) - 1);
  interface.ifr_flags = IFF_UP;
  Must(ioctl(socket, SIOCSIFFLAGS, &interface) == 0, "raising an interface");
}

std::string AddressOf(int host) { return "10.77.0." + std::to_string(host + 1); }

Host MakeHost(int number) {
  Must(unshare(CLONE_NEWNET) == 0, "a network namespace (only root may make one)");
  const Host host = {open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC),
                     open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC)};
  Must(host.network >= 0, "the file of a network namespace");
  ifreq interface = {};
  std::strncpy(interface.ifr_name, "eth0", sizeof(interface.ifr_name) - 1);
  interface.ifr_flags = IFF_TUN | IFF_NO_PI;
  Must(host.packets >= 0 && ioctl(host.packets, TUNSETIFF, &interface) == 0, "an interface of /dev/net/tun");
  const int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  SetInterface(control, &interface, SIOCSIFADDR, AddressOf(number));
  SetInterface(control, &interface, SIOCSIFNETMASK, "255.255.255.0");
  interface.ifr_mtu = kPacketBytesMax;
  Must(ioctl(control, SIOCSIFMTU, &interface) == 0, "setting the size of packets");
  interface.ifr_qlen = 10000;
  Must(ioctl(control, SIOCSIFTXQLEN, &interface) == 0, "setting the length of the queue");
  RaiseInterface(control, "lo");
  RaiseInterface(control, "eth0");
  close(control);
  return host;
}

struct Packet {
  Clock::time_point due;
  size_t to;
  std::string bytes;
};

class Path {
 public:
  Path(const PathOptions& options, std::vector<Host> hosts)
      : way_(options.round_trip / 2),
        loss_(options.loss),
        ns_per_byte_(options.mbits > 0 ? 8000 / options.mbits : 0),
        hosts_(std::move(hosts)),
        lines_(hosts_.size()) {}

  void Carry() {
    std::vector<pollfd> ends = {{STDIN_FILENO, POLLIN, 0}};
    for (const Host& host : hosts_) ends.push_back({host.packets, POLLIN, 0});
    while ((ends.front().revents & (POLLHUP | POLLIN)) == 0) {
      bool took = false;
      for (size_t from = 0; from < hosts_.size(); ++from) took |= Take(from);
      Deliver();
      const timespec wait = took ? timespec{} : NextDue();
      Must(ppoll(ends.data(), ends.size(), bytes_ == 0 && !took ? nullptr : &wait, nullptr) >= 0, "ppoll");
    }
  }

 private:
  // What one host has sent: one after the other, so in the order in which they are due.
  struct Line {
    std::deque<Packet> under_way;
    Clock::time_point free_at;
  };

  // True: there may be more.
  bool Take(size_t from) {
    Line& line = lines_[from];
    char packet[kPacketBytesMax];
    for (int i = 0; i < kPacketsPerTurn; ++i) {
      const ssize_t got = read(hosts_[from].packets, packet, sizeof(packet));
      if (got <= 0) return false;
      const auto size = static_cast<size_t>(got);
      if (size <= kDestinationAt + 3 || (packet[0] & 0xf0) != 0x40) continue;  // not IPv4
      const size_t to = static_cast<uint8_t>(packet[kDestinationAt + 3]) - size_t{1};
      if (to >= hosts_.size() || bytes_ + size > kUnderWayBytesMax || chance_(random_) < loss_) continue;
      line.free_at =
          std::max(line.free_at, Clock::now()) + nanoseconds(std::llround(ns_per_byte_ * static_cast<double>(size)));
      line.under_way.push_back({line.free_at + way_, to, std::string(packet, size)});
      bytes_ += size;
    }
    return true;
  }
  void Deliver() {
    const auto now = Clock::now();
    for (Line& line : lines_) {
      for (; !line.under_way.empty() && line.under_way.front().due <= now; line.under_way.pop_front()) {
        const Packet& packet = line.under_way.front();
        (void)!write(hosts_[packet.to].packets, packet.bytes.data(), packet.bytes.size());
        bytes_ -= packet.bytes.size();
      }
    }
  }
  timespec NextDue() const {
    auto due = Clock::time_point::max();
    for (const Line& line : lines_) {
      if (!line.under_way.empty()) due = std::min(due, line.under_way.front().due);
    }
    if (due == Clock::time_point::max()) return {};
    const auto left = std::max(nanoseconds(0), nanoseconds(due - Clock::now()));
    return {left.count() / 1'000'000'000, left.count() % 1'000'000'000};
  }

  const microseconds way_;
  const double loss_;
  const double ns_per_byte_;
  const std::vector<Host> hosts_;
  std::vector<Line> lines_;
  size_t bytes_ = 0;  // under way
  std::mt19937_64 random_{1};
  std::uniform_real_distribution<double> chance_{0, 1};
};

PathOptions ParsePathOptions(int argc, char** argv) {
  PathOptions options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--hosts") {
      options.hosts = static_cast<int>(std::strtol(argv[i + 1], nullptr, 10));
    } else if (name == "--rtt-us") {
      options.round_trip = microseconds(std::strtol(argv[i + 1], nullptr, 10));
    } else if (name == "--mbits") {
      options.mbits = std::strtod(argv[i + 1], nullptr);
    } else if (name == "--loss") {
      options.loss = std::strtod(argv[i + 1], nullptr);
    } else {
      Die("unknown option " + name + ": see bench/README.md");
    }
  }
  if (options.hosts < 2 || options.hosts > kHostsMax) Die("--hosts is 2 to " + std::to_string(kHostsMax));
  return options;
}

// Until its input ends.
void Run(const PathOptions& options) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_TIMERSLACK, 1);
  std::vector<Host> hosts;
  for (int number = 0; number < options.hosts; ++number) {
    hosts.push_back(MakeHost(number));
    std::printf("/proc/%d/fd/%d %s\n", getpid(), hosts.back().network, AddressOf(number).c_str());
  }
  std::fflush(stdout);
  Path(options, std::move(hosts)).Carry();
}

}  // namespace
}  // namespace fusewire::bench

int main(int argc, char** argv) {
  fusewire::bench::Run(fusewire::bench::ParsePathOptions(argc, argv));
  return 0;
}
