// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Networks that a test makes itself. Home: the thread that asks, and those that it starts afterwards. Owns: nothing; a
// network ends with its last thread. Fails: where the system lets a process have none.
#pragma once

#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "fusewire/transport/socket_address.h"

namespace fusewire::transport {

// A network namespace of its own, with its loopback device up. False: none can be had.
inline bool OwnNetwork() {
  if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  const Fd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq loopback = {};
  std::strncpy(loopback.ifr_name, "lo", sizeof(loopback.ifr_name) - 1);
  loopback.ifr_flags = IFF_UP;
  return ioctl(fd.get(), SIOCSIFFLAGS, &loopback) == 0;
}

// What `in_child` returns in a process of its own, as it changes what belongs to the process. -1: it was killed.
constexpr int kNotHere = 2;  // the system does not have what it needs
inline int CodeOf(int (*in_child)()) {
  const pid_t child = fork();
  if (child == 0) _exit(in_child());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace fusewire::transport
