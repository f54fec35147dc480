// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/reactor/process_limits.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace fusewire::reactor {
namespace {

TEST(Cpus, CountsAListOfTheKernels) {
  EXPECT_EQ(CountCpus("0\n"), 1);
  EXPECT_EQ(CountCpus("0-191\n"), 192);
  EXPECT_EQ(CountCpus("0-3,8,16-17"), 7);
  EXPECT_EQ(CountCpus("0-2047"), 2048);
  for (const char* none : {"", "\n", "all", "3-1", "-5", "0-999999999"}) EXPECT_EQ(CountCpus(none), 0) << none;
}

TEST(Cpus, AMachineHasAllThatAProcessMayUse) {
  const int machine = MachineCpuCount();
  EXPECT_GE(machine, static_cast<int>(AllowedCpus().size()));
  std::thread([machine] {
    ASSERT_TRUE(PinThisThread(AllowedCpus().front()).ok());
    EXPECT_EQ(MachineCpuCount(), machine);
  }).join();
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

TEST(Cpus, RunnableThreadsAreComparedWithOurProcessors) {
  const std::string file = testing::TempDir() + "cpus_test." + std::to_string(getpid());
  EXPECT_FALSE(RunnableThreads(1, file).known());
  for (const char* malformed :
       {"", "\n", "0.12 0.34 0.56", "0.12 0.34 0.56 x/789 1011\n", "0.12 0.34 0.56 0/789 1011\n"}) {
    std::ofstream(file) << malformed;
    EXPECT_FALSE(RunnableThreads(1, file).known()) << malformed;
  }
  std::ofstream(file) << "0.12 0.34 0.56 7/789 1011\n";
  EXPECT_TRUE(RunnableThreads(7, file).known());
  EXPECT_FALSE(RunnableThreads(7, file).TooMany());
  EXPECT_TRUE(RunnableThreads(6, file).TooMany());
  std::remove(file.c_str());
}

TEST(Cpus, ThisThreadIsRunnable) {
  const RunnableThreads threads(0);
  if (!threads.known()) GTEST_SKIP() << "the kernel doesn't say";
  EXPECT_TRUE(threads.TooMany());
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
}  // namespace fusewire::reactor
