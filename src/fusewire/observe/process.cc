// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/process.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "fusewire/base/parse.h"

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

uint64_t StartOf(pid_t pid) {
  std::string text;
  std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/stat"), text, '\0');
  uint64_t start = 0;
  return ParseStart(text, &start) ? start : 0;
}

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
