// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/group/seats.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "fusewire/reactor/process_limits.h"

namespace fusewire::collective {
namespace {

using reactor::Idling;

// How rank 0 of ranks on these hosts waits.
Idling IdlingOf(std::vector<int> hosts) {
  GroupOptions options;
  options.name = "seats";
  options.rank = 0;
  for (size_t rank = 0; rank < hosts.size(); ++rank) options.members.push_back({"w" + std::to_string(rank), {}});
  options.places.hosts = std::move(hosts);
  return Seats(options).idling();
}

TEST(Seats, OnlyRanksThatAllHaveAProcessorOfOneHostSpin) {
  const auto cpus = static_cast<size_t>(reactor::UsableCpuCount());
  EXPECT_EQ(IdlingOf(std::vector<int>(cpus, 0)), Idling::kSpins);
  EXPECT_EQ(IdlingOf(std::vector<int>(cpus + 1, 0)), Idling::kYields);
  EXPECT_EQ(IdlingOf({0, 1}), Idling::kLearned);
}

TEST(Seats, CrowdedRanksYieldWhateverOtherHostsThereAre) {
  std::vector<int> hosts(static_cast<size_t>(reactor::UsableCpuCount()) + 1, 0);
  hosts.push_back(1);
  EXPECT_EQ(IdlingOf(hosts), Idling::kYields);
}

}  // namespace
}  // namespace fusewire::collective
