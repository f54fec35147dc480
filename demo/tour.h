// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The parts of the demo's client, on Fusewire and on raw sockets, and what it shows of them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fusewire/rpc/rpc.h"
#include "peer.h"

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

// ---- the table at the end ----

struct Row {
  std::string what;
  std::string ours;
  std::string raw;
  std::string ratio;  // more than 1: ours is better
};
void PrintTable(const std::vector<Row>& rows);

// "12.3 us", "3.41 GB/s", "1.75 M/s".
std::string Micros(double seconds);
std::string Rate(double per_second, const char* unit);
std::string Times(double ratio);

}  // namespace fusewire::demo
