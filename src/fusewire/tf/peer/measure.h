// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Measures a channel: round trips of empty calls, then the bandwidth of bulk that the peer sends.
// Home: the channel's. Owns: its call, until the end. Fails: as the calls do, or with kTimeout after kMeasureNs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "fusewire/rpc/rpc.h"
#include "fusewire/tf/peer/channel.h"

namespace fusewire::tf {

constexpr int64_t kMeasureNs = 5 * kSecondNs;

struct Measured {
  std::string wire;  // "tcp", "shm" ...
  int64_t best_round_trip_ns = 0, median_round_trip_ns = 0;
  uint64_t bytes_per_s = 0;  // from the peer to here
};

// Any thread. `done` comes once, at home.
void Measure(ChannelPtr channel, std::function<void(const Status&, const Measured&)> done);

// The peer's end, method kEcho: answers with as many bytes as the request names, and with the wire's name as the head.
rpc::Method EchoMethod();

}  // namespace fusewire::tf
