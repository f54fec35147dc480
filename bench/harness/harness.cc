// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "bench/harness/harness.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace fusewire::bench {
namespace {

constexpr unsigned kLifetimeSeconds = 120;

void Usage(const char* program, const std::vector<Case>& cases) {
  std::fprintf(stderr,
               "usage: %s server --case NAME [--port 0] [--wire NAME] [--checksums 1] [--tls FOLDER]\n"
               "       %s client --case NAME --port P --server-pid PID [--seconds S] [--warmup S] [--wire NAME]\n"
               "       [--checksums 1] [--tls FOLDER]\n"
               "cases:",
               program, program);
  for (const Case& row : cases) std::fprintf(stderr, " %s", row.name);
  std::fprintf(stderr, "\n");
}

bool ParseOptions(int argc, char** argv, Options* options) {
  for (int i = 2; i < argc; i += 2) {
    if (i + 1 == argc) return false;
    const std::string flag = argv[i];
    const char* value = argv[i + 1];
    if (flag == "--case") {
      options->case_name = value;
    } else if (flag == "--port") {
      options->port = static_cast<uint16_t>(std::atoi(value));
    } else if (flag == "--wire") {
      options->wire = value;
    } else if (flag == "--checksums") {
      options->checksums = std::atoi(value) != 0;
    } else if (flag == "--tls") {
      options->tls = value;
    } else if (flag == "--seconds") {
      options->seconds = std::atof(value);
    } else if (flag == "--warmup") {
      options->warmup_s = std::atof(value);
    } else if (flag == "--server-pid") {
      options->server_pid = static_cast<pid_t>(std::atoi(value));
    } else {
      return false;
    }
  }
  return options->seconds > 0 && options->warmup_s > 0;
}

// 1,024 links need more file descriptors than the usual soft limit of 1,024.
void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

std::string Sample::ToJson(const std::string& variant, const std::string& case_name) const {
  std::string json = "{\"variant\": \"" + variant + "\", \"case\": \"" + case_name + "\"";
  char number[64];
  for (const auto& [name, value] : figures_) {
    std::snprintf(number, sizeof(number), "%.9g", value);
    json += ", \"" + name + "\": " + number;
  }
  return json + "}";
}

void BindApart(bool serves) {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  if (sched_getaffinity(0, sizeof(usable), &usable) != 0 || CPU_COUNT(&usable) < 2) return;
  int first = -1, last = -1;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &usable)) continue;
    if (first < 0) first = cpu;
    last = cpu;
  }
  CPU_ZERO(&usable);
  CPU_SET(serves ? first : last, &usable);
  if (sched_setaffinity(0, sizeof(usable), &usable) != 0) DieOfErrno("sched_setaffinity");
}

void AnnouncePort(uint16_t port) {
  std::printf("%u\n", port);
  std::fflush(stdout);
}

void Die(const std::string& what) {
  std::fprintf(stderr, "bench: %s\n", what.c_str());
  std::_Exit(1);
}

void DieOfErrno(const std::string& call) { Die(call + ": " + std::strerror(errno)); }

std::vector<size_t> SegmentSizes(const Options& options) {
  constexpr double kMin = 1024;
  constexpr double kMax = 100 * 1024;
  constexpr size_t kStride = 73;  // coprime with 200, so each rank occurs once
  const bool skewed = options.case_name.starts_with("reply_200_skewed");
  std::vector<size_t> sizes(kSegments);
  for (size_t i = 0; i < kSegments; ++i) {
    const double rank = static_cast<double>(i * kStride % kSegments) / (kSegments - 1);
    sizes[i] = static_cast<size_t>(skewed ? kMin * std::pow(kMax / kMin, rank) : kMin + rank * (kMax - kMin));
  }
  return sizes;
}

int Main(int argc, char** argv, const char* variant, const std::vector<Case>& cases) {
  Options options;
  const std::string role = argc > 1 ? argv[1] : "";
  if ((role != "server" && role != "client") || !ParseOptions(argc, argv, &options)) {
    Usage(argv[0], cases);
    return 2;
  }
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  alarm(kLifetimeSeconds);
  std::signal(SIGPIPE, SIG_IGN);
  RaiseFileLimit();
  for (const Case& row : cases) {
    if (options.case_name != row.name) continue;
    if (role == "server") {
      row.serve(options);
      return 0;
    }
    std::printf("%s\n", row.drive(options).ToJson(variant, row.name).c_str());
    std::fflush(stdout);
    std::_Exit(0);  // a clean shutdown is tested elsewhere, and would cost time here
  }
  Usage(argv[0], cases);
  return 2;
}

}  // namespace fusewire::bench
