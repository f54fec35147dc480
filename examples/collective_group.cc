// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Two ranks add up their arrays. Here both are in one process; usually each has its own process, and the other's
// address.
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/collective/group/group.h"

using fusewire::collective::Group;

int main() {
  std::unique_ptr<fusewire::p2p::Endpoint> endpoints[2];
  fusewire::collective::GroupOptions options;
  options.name = "example";
  for (int rank = 0; rank < 2; ++rank) {
    fusewire::p2p::EndpointOptions mine;
    mine.pipe.name = "rank" + std::to_string(rank);
    auto started = fusewire::p2p::Endpoint::Start(std::move(mine), {"127.0.0.1", 0});
    if (!started.ok()) return std::printf("%s\n", started.status().ToString().c_str()), 1;
    endpoints[rank] = std::move(started).value();
    options.members.push_back({endpoints[rank]->name(), endpoints[rank]->address()});
  }
  std::unique_ptr<Group> groups[2];
  std::vector<float> arrays[2];
  fusewire::collective::CollectiveSpec wanted;
  wanted.kind = fusewire::collective::CollectiveKind::kAllReduce;
  wanted.counts = {1000};
  for (int rank = 0; rank < 2; ++rank) {
    options.rank = rank;
    auto made = Group::Make(*endpoints[rank], options);
    if (!made.ok()) return std::printf("%s\n", made.status().ToString().c_str()), 1;
    groups[rank] = std::move(made).value();
    arrays[rank].assign(1000, static_cast<float>(rank + 1));
  }
  wanted.to = {arrays[0].data(), arrays[0].size() * sizeof(float)};  // in place
  auto ticket = groups[0]->StartTicket(wanted);
  wanted.to = {arrays[1].data(), arrays[1].size() * sizeof(float)};
  const fusewire::Status other = groups[1]->Run(wanted);
  ticket->Wait();
  std::printf("%s, %s: %g and %g\n", ticket->status().ToString().c_str(), other.ToString().c_str(),
              static_cast<double>(arrays[0][999]), static_cast<double>(arrays[1][0]));
  return 0;
}
