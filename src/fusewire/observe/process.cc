// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/process.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

namespace fusewire::observe {
namespace {

std::string LinkAt(const char* path) {
  char text[64];
  const ssize_t size = readlink(path, text, sizeof(text));
  return {text, size > 0 ? static_cast<size_t>(size) : 0};
}

std::string Boot() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return boot;
}

}  // namespace

const char* Version() { return FUSEWIRE_VERSION; }

std::string MachineName() { return Boot() + " " + LinkAt("/proc/self/ns/time"); }

std::string PidSpace() { return Boot() + " " + LinkAt("/proc/self/ns/pid"); }

ProcessUse ReadProcessUse() {
  ProcessUse use;
  rusage spent{};
  if (getrusage(RUSAGE_SELF, &spent) == 0) {
    for (const timeval& time : {spent.ru_utime, spent.ru_stime})
      use.cpu_ns += static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_usec) * 1'000;
  }
  uint64_t all = 0, resident = 0;
  if (std::ifstream("/proc/self/statm") >> all >> resident)
    use.memory_bytes = resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return use;
}

}  // namespace fusewire::observe
