// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/reactor/cpus.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>

#include "fusewire/reactor/process_limits.h"

namespace fusewire::reactor {
namespace {

// More than any kernel knows.
constexpr int kCpusMax = 1 << 18;
constexpr const char* kPresentCpus = "/sys/devices/system/cpu/present";

}  // namespace

std::vector<int> AllowedCpus() {
  std::vector<int> cpus;
  // The mask has to be as large as the kernel's own; try sizes until it fits.
  for (int count = 1024; count <= kCpusMax; count *= 2) {
    cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(count));
    if (set == nullptr) break;
    size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(count));
    bool fits = sched_getaffinity(0, bytes, set) == 0;
    for (int cpu = 0; fits && cpu < count; ++cpu) {
      if (CPU_ISSET_S(static_cast<size_t>(cpu), bytes, set)) cpus.push_back(cpu);
    }
    CPU_FREE(set);
    if (fits) break;
  }
  return cpus;
}

int UsableCpuCount() {
  size_t allowed = AllowedCpus().size();
  if (allowed == 0) allowed = static_cast<size_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  const double quota = ControlGroupCpus();
  if (quota <= 0 || quota >= static_cast<double>(allowed)) return static_cast<int>(allowed);
  return std::max(static_cast<int>(std::ceil(quota)), 1);
}

int CountCpus(const std::string& list) {
  int count = 0;
  std::istringstream ranges(list);
  std::string range;
  while (std::getline(ranges, range, ',')) {
    int first = 0, last = 0;
    const int read = std::sscanf(range.c_str(), "%d-%d", &first, &last);
    if (read == 1) last = first;
    if (read < 1 || first < 0 || last < first || last >= kCpusMax) return 0;
    count += last - first + 1;
  }
  return count;
}

int MachineCpuCount() {
  std::ifstream file(kPresentCpus);
  std::string list;
  if (file) std::getline(file, list);
  const int present = CountCpus(list);
  // Those that are online will not do: some C libraries (glibc 2.34) count those of the affinity mask for it.
  return present > 0 ? present : static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_CONF)));
}

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb" ::: "memory");  // waits some tens of cycles; `yield` does nothing on most processors
#else
  std::this_thread::yield();
#endif
}

Status PinThisThread(int cpu) {
  if (cpu < 0) return Status::Invalid("no processor " + std::to_string(cpu)).Phase("pin a thread");
  size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(cpu) + 1);
  cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(cpu) + 1);
  if (set == nullptr) return Status::Overloaded("no memory for a processor mask").Phase("pin a thread");
  CPU_ZERO_S(bytes, set);
  CPU_SET_S(static_cast<size_t>(cpu), bytes, set);
  int error = pthread_setaffinity_np(pthread_self(), bytes, set);
  CPU_FREE(set);
  if (error == 0) return Status::Ok();
  return Status::FromErrno(Code::kInvalid, "pthread_setaffinity_np", error)
      .Phase("pin a thread to processor " + std::to_string(cpu))
      .Next("choose a processor of the process's affinity mask, or turn pinning off");
}

}  // namespace fusewire::reactor
