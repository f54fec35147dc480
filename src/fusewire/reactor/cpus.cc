// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/reactor/cpus.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace fusewire {
namespace reactor {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

// The group's path below its controller, from /proc/self/cgroup: "0::/a/b" (v2) or "4:cpu,cpuacct:/a/b" (v1).
std::string OwnGroup(const std::string& controller) {
  std::istringstream lines(ReadFile("/proc/self/cgroup"));
  std::string line;
  while (std::getline(lines, line)) {
    size_t first = line.find(':');
    size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    bool is_ours = controller.empty() ? names == ",," : names.find("," + controller + ",") != std::string::npos;
    if (is_ours) return line.substr(second + 1);
  }
  return "/";
}

// The file in our own group, or in the root that a container shows as its own.
std::string ReadGroupFile(const std::string& root, const std::string& group, const std::string& name) {
  std::string text = ReadFile(root + group + "/" + name);
  return text.empty() ? ReadFile(root + "/" + name) : text;
}

}  // namespace

std::vector<int> AllowedCpus() {
  std::vector<int> cpus;
  // The mask has to be as large as the kernel's own; try sizes until it fits.
  for (int count = 1024; count <= 1 << 18; count *= 2) {
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

double CgroupCpuQuota(const std::string& cpu_max, const std::string& quota_us, const std::string& period_us) {
  std::string quota = quota_us, period = period_us;
  if (!cpu_max.empty()) {
    std::istringstream words(cpu_max);
    words >> quota >> period;
  }
  double quota_value = std::atof(quota.c_str());  // "max" and "-1" mean none
  double period_value = std::atof(period.c_str());
  return quota_value > 0 && period_value > 0 ? quota_value / period_value : 0.0;
}

int UsableCpuCount() {
  size_t allowed = AllowedCpus().size();
  if (allowed == 0) allowed = static_cast<size_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  const std::string root = "/sys/fs/cgroup";
  std::string v1 = OwnGroup("cpu");
  double quota =
      CgroupCpuQuota(ReadGroupFile(root, OwnGroup(""), "cpu.max"), ReadGroupFile(root + "/cpu", v1, "cpu.cfs_quota_us"),
                     ReadGroupFile(root + "/cpu", v1, "cpu.cfs_period_us"));
  if (quota <= 0) return static_cast<int>(allowed);
  return std::clamp(static_cast<int>(std::ceil(quota)), 1, static_cast<int>(allowed));
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

}  // namespace reactor
}  // namespace fusewire
