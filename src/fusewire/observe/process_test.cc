// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace fusewire::observe {
namespace {

TEST(Process, SaysWhereItRuns) {
  EXPECT_THAT(PidSpace(), testing::MatchesRegex("[0-9a-f-]+ pid:.[0-9]+."));
  EXPECT_EQ(MachineName().find(' '), PidSpace().find(' '));
  EXPECT_EQ(MachineName(), MachineName());
}

TEST(Process, UsesGrow) {
  const ProcessUse before = ReadProcessUse();
  std::string filled(64 << 20, 'x');
  volatile uint64_t sum = 0;
  for (const char letter : filled) sum = sum + static_cast<uint64_t>(letter);
  const ProcessUse after = ReadProcessUse();
  EXPECT_GT(after.cpu_ns, before.cpu_ns);
  EXPECT_GT(after.memory_bytes, before.memory_bytes);
}

}  // namespace
}  // namespace fusewire::observe
