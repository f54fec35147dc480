// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/transports.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "fusewire/transport/lab_test.h"

namespace fusewire::transport {
namespace {

// The host in a new process, which makes a network namespace of its own first if requested; nothing if it may not.
bool IdInAProcess(bool own_network, uint64_t* id) {
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) return false;
  const pid_t child = fork();
  if (child == 0) {
    if (own_network && !OwnNetwork()) _exit(1);
    const uint64_t found = HostId();
    _exit(write(pipe_ends[1], &found, sizeof(found)) == sizeof(found) ? 0 : 2);
  }
  close(pipe_ends[1]);
  const bool read_all = read(pipe_ends[0], id, sizeof(*id)) == sizeof(*id);
  close(pipe_ends[0]);
  int status = 0;
  return waitpid(child, &status, 0) == child && status == 0 && read_all;
}

TEST(HostId, IsTheSameInAllThreadsAndProcessesOfAHost) {
  const uint64_t here = HostId();
  EXPECT_NE(here, 0U);
  uint64_t other = 0;
  std::thread([&other] { other = HostId(); }).join();
  EXPECT_EQ(other, here);
  ASSERT_TRUE(IdInAProcess(false, &other));
  EXPECT_EQ(other, here);
}

TEST(HostId, IsAnotherInAnotherNetwork) {
  uint64_t there = 0;
  if (!IdInAProcess(true, &there)) GTEST_SKIP() << "this user may not make network namespaces";
  EXPECT_NE(there, 0U);
  EXPECT_NE(there, HostId());
}

}  // namespace
}  // namespace fusewire::transport
