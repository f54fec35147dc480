// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The parts of the demo's client, on Fusewire and on raw sockets.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "fusewire/rpc/rpc.h"
#include "raw_sockets.h"

namespace fusewire::demo {

// A number of operations, and their duration.
struct Count {
  uint64_t times = 0;
  double seconds = 0;
  Status status;
  double per_second() const { return seconds > 0 ? static_cast<double>(times) / seconds : 0; }
};

// Ours and the raw socket take turns, so that both see the same noise.
struct Pair {
  Count ours, raw;
};
using Turn = std::function<Count(double seconds)>;
Pair Alternate(const std::string& title, double seconds, const std::function<std::string(const Count&)>& words,
               const Turn& ours, const Turn& raw);

Count RoundTrips(rpc::Client& client, double seconds);      // round trips of 64 bytes, one at a time
Count CallsInFlight(rpc::Client& client, double seconds);   // round trips of 100 bytes, 64 at a time
Count PushTensors(rpc::Client& client, double seconds);     // 4 MiB one way, 4 at a time
Count PullParameters(rpc::Client& client, double seconds);  // 200 tensors back in one reply; every byte is checked once
Count RawExchanges(RawClient& raw, size_t out_bytes, size_t in_bytes, double seconds);

}  // namespace fusewire::demo
