// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/cut/homes.h"

#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

StarHome HomeOf(const std::string& protocol) {
  StarHome home;
  home.mode = StarMode::kLite;
  home.protocol = protocol;
  home.reaches = [](const std::string& task) { return task == "/job:ps/replica:0/task:0"; };
  return home;
}

TEST(StarHomes, AreFoundByTheIncarnationOfADevice) {
  constexpr uint64_t kIncarnation = 0x1f2e3d4c5b6a7988;  // of no device
  EXPECT_EQ(FindHome(kIncarnation), nullptr);
  RegisterHome(kIncarnation, HomeOf("star_server_lite"));
  const StarHome* home = FindHome(kIncarnation);
  ASSERT_NE(home, nullptr);
  EXPECT_EQ(home->mode, StarMode::kLite);
  EXPECT_EQ(home->protocol, "star_server_lite");
  EXPECT_TRUE(home->reaches("/job:ps/replica:0/task:0"));
  EXPECT_FALSE(home->reaches("/job:ps/replica:0/task:1"));
  EXPECT_EQ(FindHome(kIncarnation + 1), nullptr);
}

// A pass may look at it when another server of the process begins.
TEST(StarHomes, StayWhereTheyAre) {
  constexpr uint64_t kIncarnation = 0x2f2e3d4c5b6a7988;
  RegisterHome(kIncarnation, HomeOf("first"));
  const StarHome* first = FindHome(kIncarnation);
  for (uint64_t i = 1; i < 100; ++i) RegisterHome(kIncarnation + i, HomeOf("other"));
  RegisterHome(kIncarnation, HomeOf("second"));
  EXPECT_EQ(FindHome(kIncarnation), first);
  EXPECT_EQ(first->protocol, "first");
}

}  // namespace
}  // namespace fusewire::tf
