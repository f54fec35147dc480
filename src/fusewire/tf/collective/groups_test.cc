// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/collective/groups.h"

#include <gtest/gtest.h>

namespace fusewire {
namespace tf {
namespace {

TEST(CollectiveGroups, TellTheirRanksApartByWhatTasksSayOfTheirHosts) {
  EXPECT_EQ(HostsOf({7, 7}), (std::vector<int>{0, 0}));
  EXPECT_EQ(HostsOf({9, 7, 9, 7, 8}), (std::vector<int>{0, 1, 0, 1, 4}));
  EXPECT_EQ(HostsOf({0xffffffffffffffff, 0x7fffffffffffffff}), (std::vector<int>{0, 1}));
}

TEST(CollectiveGroups, KnowNoHostsWhereOneTaskSaysNothing) {
  EXPECT_TRUE(HostsOf({7, 0, 7}).empty());
  EXPECT_TRUE(HostsOf({0, 0}).empty());
}

}  // namespace
}  // namespace tf
}  // namespace fusewire
