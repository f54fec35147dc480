// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/reactor/process_limits.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "fusewire/base/clock.h"

namespace fusewire::reactor {
namespace {

// Version 1 says "no limit" by a number of about this size.
constexpr double kNoMemoryLimit = 4e18;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

// The group's path below its controller: "0::/a/b" (version 2, no controller) or "4:cpu,cpuacct:/a/b" (version 1).
std::string OwnGroup(const std::string& own_groups, const std::string& controller) {
  std::istringstream lines(own_groups);
  std::string line;
  while (std::getline(lines, line)) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool is_ours = controller.empty() ? names == ",," : names.find("," + controller + ",") != std::string::npos;
    if (is_ours) return line.substr(second + 1);
  }
  return "/";
}

// From the group itself up to the root that is shown here. That one is the container's own group where the path is the
// host's and leads nowhere, and all there is where the path leaves what is shown ("/../a").
std::vector<std::string> FoldersOf(const std::string& root, std::string group) {
  std::vector<std::string> folders;
  if (group.find("..") != std::string::npos) group.clear();
  while (group.size() > 1) {
    folders.push_back(root + group + "/");
    group.resize(group.rfind('/'));
  }
  folders.push_back(root + "/");
  return folders;
}

// All folders whose limits hold for us, of one controller: in each version's hierarchy.
std::vector<std::string> Folders(const ControlGroupFiles& files, const std::vector<std::string>& hierarchies,
                                 const std::string& controller) {
  const std::string own_groups = ReadFile(files.own_groups);
  std::vector<std::string> all;
  for (const std::string& hierarchy : hierarchies) {
    for (std::string& folder : FoldersOf(files.root + hierarchy, OwnGroup(own_groups, controller)))
      all.push_back(std::move(folder));
  }
  return all;
}

// 0 for a text that is not a number, such as "max" or an empty file.
double NumberOf(const std::string& text) { return std::atof(text.c_str()); }

double Least(double one, double other) {
  if (one <= 0 || other <= 0) return one <= 0 ? other : one;
  return one < other ? one : other;
}

double QuotaOf(const std::string& quota_text, const std::string& period_text) {
  const double quota = NumberOf(quota_text), period = NumberOf(period_text);
  return quota > 0 && period > 0 ? quota / period : 0;
}

constexpr rlim_t kRaisedMax = 1 << 20;

bool Raise() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  const rlim_t wanted = std::min(limit.rlim_max, kRaisedMax);
  if (limit.rlim_cur >= wanted) return true;
  limit.rlim_cur = wanted;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

// What counting the runnable threads may take, once in so many tries.
constexpr int64_t kCountNsMax = 5 * kMicrosecondNs;
constexpr int kCountsMax = 5;

// More than any kernel knows.
constexpr int kCpusMax = 1 << 18;
constexpr const char* kPresentCpus = "/sys/devices/system/cpu/present";

}  // namespace

double ControlGroupCpus(const ControlGroupFiles& files) {
  double least = 0;
  for (const std::string& folder : Folders(files, {"", "/unified"}, "")) {
    std::istringstream words(ReadFile(folder + "cpu.max"));
    std::string quota, period;
    words >> quota >> period;
    least = Least(least, QuotaOf(quota, period));
  }
  for (const std::string& folder : Folders(files, {"/cpu", "/cpu,cpuacct"}, "cpu"))
    least = Least(least, QuotaOf(ReadFile(folder + "cpu.cfs_quota_us"), ReadFile(folder + "cpu.cfs_period_us")));
  return least;
}

uint64_t ControlGroupMemoryBytes(const ControlGroupFiles& files) {
  double least = 0;
  for (const std::string& folder : Folders(files, {"", "/unified"}, ""))
    least = Least(least, NumberOf(ReadFile(folder + "memory.max")));
  for (const std::string& folder : Folders(files, {"/memory"}, "memory"))
    least = Least(least, NumberOf(ReadFile(folder + "memory.limit_in_bytes")));
  return least > 0 && least < kNoMemoryLimit ? static_cast<uint64_t>(least) : 0;
}

// ---- descriptors ----

uint64_t DescriptorsMax() {
  [[maybe_unused]] static const bool raised = Raise();
  rlimit limit = {};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 1024;
}

// ---- processors ----

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

RunnableThreads::RunnableThreads(int cpus, const std::string& file)
    : cpus_(cpus), fd_(open(file.c_str(), O_RDONLY | O_CLOEXEC)) {
  for (int i = 0; i < kCountsMax && fd_ >= 0; ++i) {
    const int64_t began_ns = Clock::Real()->NowNs();
    if (Count() == 0) break;  // this thread runs
    if (Clock::Real()->NowNs() - began_ns <= kCountNsMax) return;
  }
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

RunnableThreads::~RunnableThreads() {
  if (fd_ >= 0) close(fd_);
}

// "0.12 0.34 0.56 3/789 12345": 3 of 789 threads.
int RunnableThreads::Count() const {
  char text[64] = {};
  if (fd_ < 0 || pread(fd_, text, sizeof(text) - 1, 0) <= 0) return 0;
  int runnable = 0;
  return std::sscanf(text, "%*s %*s %*s %d/", &runnable) == 1 ? runnable : 0;
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
