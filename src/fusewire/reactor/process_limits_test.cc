// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/reactor/process_limits.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace fusewire::reactor {
namespace {

// A tree of files as /proc and /sys/fs/cgroup show them.
class ControlGroup : public testing::Test {
 protected:
  ControlGroup() : folder_(testing::TempDir() + "control_group_test." + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
    files_ = {folder_ + "/own", folder_ + "/groups"};
  }
  ~ControlGroup() override { std::filesystem::remove_all(folder_); }

  void WeAreIn(const std::string& lines) { std::ofstream(files_.own_groups) << lines; }
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = files_.root + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  double cpus() const { return ControlGroupCpus(files_); }
  uint64_t memory_bytes() const { return ControlGroupMemoryBytes(files_); }

 private:
  const std::string folder_;
  ControlGroupFiles files_;
};

TEST_F(ControlGroup, WithoutFilesThereIsNoLimit) {
  EXPECT_EQ(cpus(), 0);
  EXPECT_EQ(memory_bytes(), 0U);
}

TEST_F(ControlGroup, AContainerIsTheRootThatItSees) {
  WeAreIn("0::/\n");
  Write("cpu.max", "150000 100000\n");
  Write("memory.max", "536870912\n");
  EXPECT_DOUBLE_EQ(cpus(), 1.5);
  EXPECT_EQ(memory_bytes(), uint64_t{512} << 20);
}

TEST_F(ControlGroup, ThePathMayBeTheHostsAndLeadNowhere) {
  WeAreIn("0::/kubepods.slice/pod1/container2\n");
  Write("cpu.max", "5000 100000\n");
  EXPECT_DOUBLE_EQ(cpus(), 0.05);
  WeAreIn("0::/../../system.slice\n");
  EXPECT_DOUBLE_EQ(cpus(), 0.05);
}

TEST_F(ControlGroup, TheLeastOfAllGroupsAboveHolds) {
  WeAreIn("0::/pod/container/inner\n");
  Write("pod/container/inner/cpu.max", "max 100000\n");
  Write("pod/container/cpu.max", "150000 100000\n");
  Write("pod/cpu.max", "400000 100000\n");
  Write("pod/container/inner/memory.max", "max\n");
  Write("pod/container/memory.max", "2000000\n");
  Write("pod/memory.max", "1000000\n");
  EXPECT_DOUBLE_EQ(cpus(), 1.5);
  EXPECT_EQ(memory_bytes(), 1000000U);
}

TEST_F(ControlGroup, VersionOneHasAHierarchyForEach) {
  WeAreIn("5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n2:cpuset:/elsewhere\n");
  Write("cpu,cpuacct/docker/cpu.cfs_quota_us", "150000\n");
  Write("cpu,cpuacct/docker/cpu.cfs_period_us", "100000\n");
  Write("cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "-1\n");
  Write("cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
  Write("memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_DOUBLE_EQ(cpus(), 1.5);
  EXPECT_EQ(memory_bytes(), 0U);
  Write("memory/memory.limit_in_bytes", "1073741824\n");
  EXPECT_EQ(memory_bytes(), uint64_t{1} << 30);
}

TEST_F(ControlGroup, BothVersionsAtOnce) {
  WeAreIn("1:cpu:/a\n0::/a\n");
  Write("unified/a/cpu.max", "300000 100000\n");
  Write("cpu/a/cpu.cfs_quota_us", "400000\n");
  Write("cpu/a/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(cpus(), 3);
  Write("cpu/a/cpu.cfs_quota_us", "200000\n");
  EXPECT_DOUBLE_EQ(cpus(), 2);
}

TEST_F(ControlGroup, AnUnreadableFileSetsNoLimit) {
  for (const char* text : {"", "max\n", "max 100000\n", "what is this", "100000 0", "100000", "-100000 -100000"}) {
    Write("cpu.max", text);
    EXPECT_EQ(cpus(), 0) << text;
  }
  for (const char* text : {"", "max\n", "no number", "-1"}) {
    Write("memory.max", text);
    EXPECT_EQ(memory_bytes(), 0U) << text;
  }
  Write("cpu/cpu.cfs_quota_us", "400000");
  EXPECT_EQ(cpus(), 0);  // no period
}

// In a process of its own, as the limit is the process's.
void InChild(rlim_t soft, rlim_t hard, uint64_t expected) {
  const auto run = [soft, hard, expected] {
    const rlimit limit = {soft, hard};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(2);
    _exit(DescriptorsMax() == expected ? 0 : 1);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "") << soft << " of " << hard;
}

TEST(Descriptors, TheSoftLimitIsRaisedToTheHardOne) {
  InChild(256, 1024, 1024);
  InChild(1024, 1024, 1024);
}

TEST(Descriptors, ALimitThatIsLoweredLaterStaysLow) {
  const auto run = [] {
    if (DescriptorsMax() < 300) _exit(2);
    rlimit limit = {};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 256;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(3);
    _exit(DescriptorsMax() == 256 ? 0 : 1);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

}  // namespace

}  // namespace fusewire::reactor
