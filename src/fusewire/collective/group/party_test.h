// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// For tests: a group whose ranks are endpoints of this process, a thread for each when they work; and sums for it.
// Home: the test's thread. Owns: endpoints and groups. Fails: as an expectation.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fusewire/collective/group/group.h"

namespace fusewire::collective {

class Party {
 public:
  explicit Party(int ranks, task::TransportChoice wire = task::TransportChoice::kAuto,
                 const GroupOptions& options = GroupOptions()) {
    GroupOptions all = options;
    all.name = "party";
    for (int rank = 0; rank < ranks; ++rank) {
      p2p::EndpointOptions endpoint;
      endpoint.pipe.name = "w" + std::to_string(rank);
      endpoint.wire = wire;
      auto started = p2p::Endpoint::Start(std::move(endpoint), {"127.0.0.1", 0});
      EXPECT_TRUE(started.ok()) << started.status().ToString();
      endpoints.push_back(std::move(started).value());
      all.members.push_back({endpoints.back()->name(), endpoints.back()->address()});
    }
    for (int rank = 0; rank < ranks; ++rank) {
      all.rank = rank;
      auto made = Group::Make(*endpoints[static_cast<size_t>(rank)], all);
      EXPECT_TRUE(made.ok()) << made.status().ToString();
      groups.push_back(std::move(made).value());
    }
  }
  ~Party() {
    groups.clear();
    endpoints.clear();
  }
  Group& at(int rank) { return *groups[static_cast<size_t>(rank)]; }
  int ranks() const { return static_cast<int>(groups.size()); }

  void Run(const std::function<void(int rank, Group& group)>& run) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks(); ++rank) {
      if (groups[static_cast<size_t>(rank)] == nullptr) continue;
      threads.emplace_back([this, rank, &run] { run(rank, at(rank)); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // For good.
  void Leave(int rank) {
    groups[static_cast<size_t>(rank)].reset();
    endpoints[static_cast<size_t>(rank)]->Close();
  }

  std::vector<std::unique_ptr<p2p::Endpoint>> endpoints;
  std::vector<std::unique_ptr<Group>> groups;
};

// Of ranks that share a host, and so an arena.
inline GroupOptions OneHost(int ranks) {
  GroupOptions options;
  options.places.hosts.assign(static_cast<size_t>(ranks), 3);
  return options;
}

using Numbers = std::vector<int32_t>;

// Sums `array` in place.
inline CollectiveSpec Sum(Numbers* array, int64_t timeout_ns = 20 * kSecondNs) {
  CollectiveSpec spec;
  spec.kind = CollectiveKind::kAllReduce;
  spec.reduction.type = Type::kI32;
  spec.counts = {array->size()};
  spec.to = Pieces(array->data(), array->size() * sizeof(int32_t));
  spec.timeout_ns = timeout_ns;
  return spec;
}

inline void ExpectSum(Group& group, size_t count = 100) {
  Numbers ones(count, 1);
  const Status status = group.Run(Sum(&ones));
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(ones, Numbers(count, group.ranks()));
}

}  // namespace fusewire::collective
