// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// For tests: a process with a number of one's choice, as if numbers had come round.
#pragma once

#include <linux/sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace fusewire::transport {

// As fork(). -1 where the system lets nobody choose; no process may have the number.
inline pid_t ForkAs(pid_t number) {
  clone_args how = {};
  how.exit_signal = SIGCHLD;
  how.set_tid = reinterpret_cast<uint64_t>(&number);
  how.set_tid_size = 1;
  return static_cast<pid_t>(syscall(SYS_clone3, &how, sizeof(how)));
}

}  // namespace fusewire::transport
