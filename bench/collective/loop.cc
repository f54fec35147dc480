// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "bench/collective/loop.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "bench/harness/harness.h"

namespace fusewire::bench {
namespace {

constexpr int kBatches = 5;

double SecondsOf(Group& group, const float* from, float* to, size_t count, uint64_t rounds) {
  group.Barrier();
  const Clock::time_point start = Clock::now();
  for (uint64_t i = 0; i < rounds; ++i) group.AllReduce(from, to, count);
  group.Barrier();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

void MeasureSize(Group& group, size_t bytes, double seconds, const std::string& variant) {
  const size_t count = bytes / sizeof(float);
  std::vector<float> from(count), to(count);
  for (size_t i = 0; i < count; ++i) from[i] = static_cast<float>(i % 100 + static_cast<size_t>(group.rank()));
  // Doubled until a batch fills its share of the time, as measured by rank 0, which then broadcasts 0.
  uint64_t rounds = 1;
  for (uint64_t next = 1; next != 0;) {
    rounds = next;
    const double taken = SecondsOf(group, from.data(), to.data(), count, rounds);
    next = taken > seconds / kBatches / 2 ? 0 : rounds * 2;
    group.Broadcast(&next);
  }
  std::vector<double> us;
  const double cpu_before = CpuSeconds();
  for (int batch = 0; batch < kBatches; ++batch) {
    us.push_back(1e6 * SecondsOf(group, from.data(), to.data(), count, rounds) / static_cast<double>(rounds));
  }
  const double cpu_us = 1e6 * (CpuSeconds() - cpu_before) / static_cast<double>(rounds * kBatches);
  const auto n = static_cast<size_t>(group.ranks());
  for (size_t i = 0; i < count; ++i) {
    const size_t sum = n * (i % 100) + n * (n - 1) / 2;
    if (to[i] != static_cast<float>(sum)) Die("wrong sum at element " + std::to_string(i));
  }
  if (group.rank() != 0) return;
  std::sort(us.begin(), us.end());
  std::printf(
      "{\"variant\": \"%s\", \"case\": \"allreduce_%zu_n%zu\", \"us\": %.3f, \"us_min\": %.3f, \"cpu_us\": %.3f}\n",
      variant.c_str(), bytes, n, us[kBatches / 2], us.front(), cpu_us);
  std::fflush(stdout);
}

}  // namespace

LoopOptions ParseLoopOptions(int argc, char** argv) {
  LoopOptions options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--seconds") {
      options.seconds = std::strtod(argv[i + 1], nullptr);
    } else if (name == "--ranks") {
      options.ranks = static_cast<int>(std::strtol(argv[i + 1], nullptr, 10));
    } else if (name == "--wire") {
      options.wire = argv[i + 1];
    } else if (name == "--algorithm") {
      options.algorithm = argv[i + 1];
    } else if (name == "--hosts") {
      options.hosts = argv[i + 1];
    } else if (name == "--slot-bytes") {
      options.slot_bytes = std::strtoull(argv[i + 1], nullptr, 10);
    } else if (name == "--one-shot-bytes") {
      options.one_shot_bytes = std::strtoull(argv[i + 1], nullptr, 10);
    } else if (name == "--bytes") {
      std::stringstream list(argv[i + 1]);
      for (std::string size; std::getline(list, size, ',');) {
        options.sizes.push_back(std::strtoull(size.c_str(), nullptr, 10));
      }
    } else {
      Die("unknown option " + name + ": see bench/README.md");
    }
  }
  if (options.sizes.empty()) {
    for (size_t bytes = 4; bytes <= 64u << 20; bytes *= 4) options.sizes.push_back(bytes);
  }
  return options;
}

void MeasureAllReduce(Group& group, const LoopOptions& options, const std::string& variant) {
  for (const size_t bytes : options.sizes) MeasureSize(group, bytes, options.seconds, variant);
}

}  // namespace fusewire::bench
