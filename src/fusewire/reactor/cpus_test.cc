// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/reactor/cpus.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace fusewire {
namespace reactor {
namespace {

TEST(Cpus, ReadsTheQuotaOfCgroupVersion2) {
  EXPECT_DOUBLE_EQ(CgroupCpuQuota("200000 100000\n", "", ""), 2.0);
  EXPECT_DOUBLE_EQ(CgroupCpuQuota("150000 100000", "", ""), 1.5);
  EXPECT_DOUBLE_EQ(CgroupCpuQuota("5000 100000\n", "", ""), 0.05);
  EXPECT_DOUBLE_EQ(CgroupCpuQuota("max 100000\n", "", ""), 0.0);
  EXPECT_DOUBLE_EQ(CgroupCpuQuota("max\n", "", ""), 0.0);
}

TEST(Cpus, ReadsTheQuotaOfCgroupVersion1) {
  EXPECT_DOUBLE_EQ(CgroupCpuQuota("", "400000\n", "100000\n"), 4.0);
  EXPECT_DOUBLE_EQ(CgroupCpuQuota("", "-1\n", "100000\n"), 0.0);
  EXPECT_DOUBLE_EQ(CgroupCpuQuota("", "400000", ""), 0.0);
}

TEST(Cpus, TakesWhatItCannotReadForNoLimit) {
  EXPECT_DOUBLE_EQ(CgroupCpuQuota("", "", ""), 0.0);
  EXPECT_DOUBLE_EQ(CgroupCpuQuota("what is this", "", ""), 0.0);
  EXPECT_DOUBLE_EQ(CgroupCpuQuota("100000 0", "", ""), 0.0);
  EXPECT_DOUBLE_EQ(CgroupCpuQuota("100000", "", ""), 0.0);
  EXPECT_DOUBLE_EQ(CgroupCpuQuota("-100000 -100000", "", ""), 0.0);
}

TEST(Cpus, AllowedCpusAreThoseOfTheAffinityMask) {
  std::vector<int> all = AllowedCpus();
  ASSERT_FALSE(all.empty());
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
  EXPECT_GE(UsableCpuCount(), 1);
  EXPECT_LE(UsableCpuCount(), static_cast<int>(all.size()));
  // A thread of its own, so that the other tests keep their processors.
  std::thread([&all] {
    for (int cpu : all) {
      ASSERT_TRUE(PinThisThread(cpu).ok());
      EXPECT_EQ(AllowedCpus(), std::vector<int>{cpu});
      EXPECT_EQ(sched_getcpu(), cpu);
      EXPECT_EQ(UsableCpuCount(), 1);
    }
  }).join();
}

TEST(Cpus, PinningToAProcessorThatIsNotOursSaysSo) {
  std::vector<int> before = AllowedCpus();
  for (int cpu : {-1, before.back() + 1, 1 << 17}) {
    Status pinned = PinThisThread(cpu);
    EXPECT_EQ(pinned.code(), Code::kInvalid) << cpu;
    EXPECT_NE(pinned.phase(), "");
    EXPECT_EQ(AllowedCpus(), before);
  }
}

}  // namespace
}  // namespace reactor
}  // namespace fusewire
