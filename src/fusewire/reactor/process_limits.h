// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What this process may use: the limits of its control groups, its own and every group above, of version 1, 2 or both
// (a container is one, though it shows all of its host's processors and memory); how many descriptors; the processors
// of its affinity mask, and how many threads want one. Home: any thread. Fails: PinThisThread alone; a limit that
// cannot be read counts as none, and a limit of descriptors that can't be read or raised is taken as it is.
#pragma once

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "fusewire/base/status.h"

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

// ---- processors ----
// The processors of the affinity mask, ascending.
std::vector<int> AllowedCpus();
// How many processors' worth of time we get: the affinity mask's size, or the quota of a control group, rounded up, if
// that is less. At least 1.
int UsableCpuCount();
// All of the machine's, also those that this process may not use: the same number in every process of the machine.
int MachineCpuCount();
// Counts the processors in a list of the kernel's: "0-3,8". 0 if it is malformed.
int CountCpus(const std::string& list);
// Whether more threads of the whole machine run, or want to, than we may use processors. The kernel counts them in
// /proc/loadavg within a microsecond. Their number isn't known where that file can't be read, or where a program
// answers in the kernel's place and takes longer, as in some containers.
class RunnableThreads {
 public:
  static constexpr const char* kFile = "/proc/loadavg";
  explicit RunnableThreads(int cpus, const std::string& file = kFile);
  ~RunnableThreads();
  RunnableThreads(const RunnableThreads&) = delete;
  RunnableThreads& operator=(const RunnableThreads&) = delete;
  bool known() const { return fd_ >= 0; }
  // Then a thread that only looks for work keeps another from its processor. False if their number isn't known.
  bool TooMany() const { return Count() > cpus_; }

 private:
  int Count() const;  // 0 if it isn't known

  const int cpus_;
  int fd_;
};
// Between two looks at memory that another thread writes.
inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb" ::: "memory");  // waits some tens of cycles; `yield` does nothing on most processors
#else
  std::this_thread::yield();
#endif
}
// Pins the calling thread. Not allowed, or no such processor: a Status that says so, and the thread stays as it is.
Status PinThisThread(int cpu);

}  // namespace fusewire::reactor
