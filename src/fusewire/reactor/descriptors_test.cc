// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/reactor/process_limits.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

namespace fusewire::reactor {
namespace {

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
