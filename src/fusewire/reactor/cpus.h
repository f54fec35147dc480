// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Which processors this process may use: affinity mask and control group, never "all that the machine has".
// Home: any thread. Fails: never; what cannot be read is taken as no limit.
#pragma once

#include <string>
#include <vector>

#include "fusewire/base/status.h"

namespace fusewire::reactor {

// The processors of the affinity mask, ascending.
std::vector<int> AllowedCpus();
// How many processors' worth of time we get: the affinity mask's size, or the quota of a control group, rounded up, if
// that is less. At least 1.
int UsableCpuCount();
// All that the machine has, whatever this process may use of it: the same number in every process of the machine.
int MachineCpuCount();
// Of a list as the kernel writes it: "0-3,8". 0 for what is none.
int CountCpus(const std::string& list);
// Between two looks at memory that another thread writes.
void Pause();
// Pins the calling thread. Not allowed, or no such processor: a Status that says so, and the thread stays as it is.
Status PinThisThread(int cpu);

}  // namespace fusewire::reactor
