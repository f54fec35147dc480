// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What this process may use: the limits of its control groups, its own and every group above, of version 1, 2 or both
// (a container is one, though it shows all of its host's processors and memory); and how many descriptors. Home: any
// thread. Fails: never; a group that cannot be read is no limit, and a limit of descriptors that can't be read or
// raised is taken as it is.
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

// Of descriptors, the soft limit. The first call raises it to the hard one, but not beyond a million, as some programs
// close every number up to it. Only select() needs a low limit, and only if it is called with a high number.
uint64_t DescriptorsMax();

}  // namespace fusewire::reactor
