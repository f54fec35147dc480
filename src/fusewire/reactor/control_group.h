// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The limits of this process's control groups: its own and every group above, of version 1, 2 or both. A container is
// one, though it shows all of its host's processors and memory.
// Home: any thread. Fails: never; what cannot be read is taken as no limit.
#pragma once

#include <cstdint>
#include <string>

namespace fusewire::reactor {

struct ControlGroupFiles {
  std::string own_groups = "/proc/self/cgroup";
  std::string root = "/sys/fs/cgroup";
};

// How many processors' worth of time, 1.5 for one and a half; 0: no limit.
double ControlGroupCpus(const ControlGroupFiles& files = ControlGroupFiles());
// 0: no limit.
uint64_t ControlGroupMemoryBytes(const ControlGroupFiles& files = ControlGroupFiles());

}  // namespace fusewire::reactor
