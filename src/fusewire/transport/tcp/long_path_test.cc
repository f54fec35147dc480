// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// TCP between two hosts with a long path between them.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <utility>

#include "fusewire/base/clock.h"
#include "fusewire/reactor/home_test.h"
#include "fusewire/transport/lab_test.h"
#include "fusewire/transport/talker_test.h"
#include "fusewire/transport/transports.h"

namespace fusewire::transport {
namespace {

using reactor::AskHome;
using reactor::Eventually;

constexpr int64_t kOneWayNs = 100 * kMillisecondNs;

// How much one kernel lets another one have on the way to it, if the latter asks for more.
bool KernelHoldsMegabytes() {
  size_t least = 0, usual = 0, most = 0;
  std::ifstream("/proc/sys/net/ipv4/tcp_rmem") >> least >> usual >> most;
  return most >= 6 << 20;
}

template <typename What>
void AtHome(reactor::Reactor& home, What what) {
  AskHome(home, [&what] { what(); });
}

// 0: more than a mebibyte was on its way at once.
int FillALongPath() {
  constexpr uint64_t kBytes = 64 << 20;
  if (!OwnNetwork() || !KernelHoldsMegabytes()) return kNotHere;
  const auto near = lab::Host::Make("10.83.0.1"), far = lab::Host::Make("10.83.0.2");
  if (near == nullptr || far == nullptr) return kNotHere;
  const lab::Link path(*near, *far, kOneWayNs);
  std::unique_ptr<reactor::Reactor> near_home, far_home;
  near->Run([&] { near_home = std::move(reactor::Reactor::Start({})).value(); });
  far->Run([&] { far_home = std::move(reactor::Reactor::Start({})).value(); });

  std::unique_ptr<Transport> tcp = MakeTcp({});
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Dialing> dialing;
  Talker speaker(1), hearer(2);
  std::atomic<int> met{0};
  AtHome(*far_home, [&] {
    auto listening = tcp->Listen(*far_home, {"10.83.0.2", 0}, [&](std::unique_ptr<Incoming> incoming) {
      hearer.Meet(std::move(incoming->Adopt(*far_home)).value());
      ++met;
    });
    if (listening.ok()) listener = std::move(listening).value();
  });
  if (listener == nullptr) return 3;
  const uint16_t port = listener->address().port;
  AtHome(*near_home, [&] {
    dialing =
        tcp->Dial(*near_home, {"10.83.0.2", port}, 5 * kSecondNs, [&](Result<std::unique_ptr<Connection>> made_one) {
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
  AtHome(*near_home, [&] {
    dialing.reset();
    speaker.Drop();
  });
  AtHome(*far_home, [&] {
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
