// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Which processors this process may use: affinity mask and control group, never "all that the machine has".
// Home: any thread. Owns: nothing. Fails: never; what cannot be read is taken as no limit.
#ifndef FUSEWIRE_REACTOR_CPUS_H_
#define FUSEWIRE_REACTOR_CPUS_H_

#include <string>
#include <vector>

#include "fusewire/base/status.h"

namespace fusewire {
namespace reactor {

// The processors of the affinity mask, ascending.
std::vector<int> AllowedCpus();
// How many processors' worth of time we get: the affinity mask's size, or the control group's quota if that is less. At
// least 1.
int UsableCpuCount();
// The quota in processors that the files of a control group state, or 0 for none. `cpu_max` is the content of cgroup
// v2's cpu.max; `quota_us` and `period_us` those of v1's files. Empty text: no such file.
double CgroupCpuQuota(const std::string& cpu_max, const std::string& quota_us, const std::string& period_us);
// Pins the calling thread. Not allowed, or no such processor: a Status that says so, and the thread stays as it is.
Status PinThisThread(int cpu);

}  // namespace reactor
}  // namespace fusewire

#endif  // FUSEWIRE_REACTOR_CPUS_H_
