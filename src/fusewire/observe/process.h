// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What this process is: which build, where it runs, and what it uses; and when any process has begun.
// Home: any thread. Fails: never; what can't be read is empty, or 0.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace fusewire::observe {

// The version of this build: "0.2.0", or between releases "0.2.0.dev0+g0123456".
const char* Version();
// Equal for processes whose clocks are the same: of one boot of one kernel, in one time namespace.
std::string MachineName();
// Equal for processes in one PID namespace.
std::string PidSpace();
// In clock ticks since the machine's start; 0: there is no such process.
uint64_t StartOf(pid_t pid);

struct ProcessUse {
  uint64_t cpu_ns = 0;  // of all its threads, since its start
  uint64_t memory_bytes = 0;
};
ProcessUse ReadProcessUse();

}  // namespace fusewire::observe
