// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "bench/collective/loop.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <sstream>

#include "bench/harness/harness.h"

namespace fusewire::bench {
namespace {

constexpr int kBatches = 5;

// How the four are called on the command line and in cases.
constexpr const char* kNames[] = {"allreduce", "allgather", "reducescatter", "alltoall"};

double SecondsOf(Group& group, const Call& call, uint64_t rounds) {
  group.Barrier();
  const Clock::time_point start = Clock::now();
  for (uint64_t i = 0; i < rounds; ++i) group.Run(call);
  group.Barrier();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

float InputOf(size_t rank, size_t i) { return static_cast<float>(i % 100 + rank); }

// The right value of element i of rank `me`'s result, among `n` ranks; their larger arrays have `count` elements.
float ResultOf(Collective what, size_t me, size_t n, size_t count, size_t i) {
  const size_t part = count / n;
  const size_t of_ranks = n * (n - 1) / 2;
  auto sum = [n, of_ranks](size_t at) { return static_cast<float>(n * (at % 100) + of_ranks); };
  switch (what) {
    case Collective::kAllReduce: return sum(i);
    case Collective::kReduceScatter: return sum(me * part + i);
    case Collective::kAllGather: return InputOf(i / part, i % part);
    case Collective::kAllToAll: return InputOf(i / part, me * part + i % part);
  }
  Die("no such collective");
}

void MeasureSize(Group& group, Collective what, size_t bytes, double seconds, const std::string& variant) {
  const auto n = static_cast<size_t>(group.ranks()), me = static_cast<size_t>(group.rank());
  const size_t count = bytes / sizeof(float);
  const char* name = kNames[static_cast<size_t>(what)];
  if (what != Collective::kAllReduce && count % n != 0) Die(std::string(name) + ": these bytes have no equal parts");
  std::vector<float> from(what == Collective::kAllGather ? count / n : count);
  std::vector<float> to(what == Collective::kReduceScatter ? count / n : count);
  for (size_t i = 0; i < from.size(); ++i) from[i] = InputOf(me, i);
  const Call call{what, from.data(), to.data(), count};
  // Doubled until a batch fills its share of the time, as measured by rank 0, which then broadcasts 0.
  uint64_t rounds = 1;
  for (uint64_t next = 1; next != 0;) {
    rounds = next;
    const double taken = SecondsOf(group, call, rounds);
    next = taken > seconds / kBatches / 2 ? 0 : rounds * 2;
    group.Broadcast(&next);
  }
  std::vector<double> us;
  const double cpu_before = CpuSeconds();
  for (int batch = 0; batch < kBatches; ++batch) {
    us.push_back(1e6 * SecondsOf(group, call, rounds) / static_cast<double>(rounds));
  }
  const double cpu_us = 1e6 * (CpuSeconds() - cpu_before) / static_cast<double>(rounds * kBatches);
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] != ResultOf(what, me, n, count, i)) Die(std::string(name) + ": wrong at element " + std::to_string(i));
  }
  if (me != 0) return;
  std::sort(us.begin(), us.end());
  std::printf("{\"variant\": \"%s\", \"case\": \"%s_%zu_n%zu\", \"us\": %.3f, \"cpu_us\": %.3f}\n", variant.c_str(),
              name, bytes, n, us[kBatches / 2], cpu_us);
  std::fflush(stdout);
}

Collective CollectiveOf(const std::string& name) {
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (name == kNames[i]) return static_cast<Collective>(i);
  }
  Die("unknown collective " + name + "; --collectives takes allreduce, allgather, reducescatter and alltoall");
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
    } else if (name == "--collectives") {
      options.collectives.clear();
      std::stringstream list(argv[i + 1]);
      for (std::string one; std::getline(list, one, ',');) options.collectives.push_back(CollectiveOf(one));
    } else {
      Die("unknown option " + name + ": see bench/README.md");
    }
  }
  if (options.sizes.empty()) {
    for (size_t bytes = 4; bytes <= 64u << 20; bytes *= 4) options.sizes.push_back(bytes);
  }
  return options;
}

bool PrintedVersion(int argc, char** argv, const std::string& name) {
  if (argc != 2 || std::string(argv[1]) != "--version") return false;
  std::printf("%s\n", name.c_str());
  return true;
}

void MeasureCollectives(Group& group, const LoopOptions& options, const std::string& variant) {
  for (const Collective what : options.collectives) {
    for (const size_t bytes : options.sizes) MeasureSize(group, what, bytes, options.seconds, variant);
  }
}

}  // namespace fusewire::bench
