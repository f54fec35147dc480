// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Runs clusters by seed, and prints how to repeat those that found an error. See README.md.
//   fusewire_simulation [--seed N] [--count K] [--trace] [--twice] [--seeds FILE] [--meddle KIND] [--limit_s S]
#include <sys/time.h>
#include <unistd.h>

#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "cluster.h"
#include "fusewire/base/log.h"
#include "fusewire/base/sanitizers.h"
#include "seeded_random.h"

#if FUSEWIRE_ADDRESS_SANITIZER
extern "C" void __sanitizer_set_death_callback(void (*callback)());
#endif

namespace fusewire::simulation {
namespace {

struct Arguments {
  uint64_t seed = 1;
  uint64_t count = 1;
  bool trace = false;
  bool twice = false;  // and compare
  std::vector<uint64_t> kept;
  Meddle meddle = Meddle::kNothing;
  unsigned limit_s = 60;  // of processor time, for one seed
};

struct Totals {
  uint64_t seeds = 0, failed = 0, faults = 0, meddled = 0;
  double virtual_s = 0;
  std::array<uint64_t, kCodeMax + 1> ends{};
};

uint64_t seed_now = 0;

void PrintReplay(uint64_t seed) {
  std::printf("  replay: fusewire_simulation --seed %" PRIu64 " --trace\n", seed);
  std::fflush(stdout);
}

void PrintDeath(const char* how) {
  std::printf("%s at seed %" PRIu64 "\n", how, seed_now);
  PrintReplay(seed_now);
}

// A broken promise, or a seed that takes too long: the last words are the seed.
void OnSignal(int signal) {
  PrintDeath(signal == SIGPROF ? "out of processor time" : "died");
  if (signal == SIGPROF) _exit(3);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void CatchDeath() {
#if FUSEWIRE_ADDRESS_SANITIZER
  __sanitizer_set_death_callback([] { PrintDeath("died"); });
#else
  std::signal(SIGSEGV, &OnSignal);
#endif
  std::signal(SIGABRT, &OnSignal);
  std::signal(SIGPROF, &OnSignal);
}

// Not real time: the machine may be busy, or we may be stopped.
void LimitProcessorTime(unsigned limit_s) {
  itimerval limit = {};
  limit.it_value.tv_sec = limit_s;
  setitimer(ITIMER_PROF, &limit, nullptr);
}

bool ReadSeeds(const char* path, std::vector<uint64_t>* seeds) {
  std::ifstream file(path);
  if (!file) return false;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    for (uint64_t seed = 0; words >> seed;) seeds->push_back(seed);
  }
  return true;
}

bool Parse(int argc, char** argv, Arguments* arguments) {
  for (int i = 1; i < argc; ++i) {
    std::string name = argv[i];
    if (name == "--trace") {
      arguments->trace = true;
      continue;
    }
    if (name == "--twice") {
      arguments->twice = true;
      continue;
    }
    if (++i == argc) return false;
    if (name == "--seed") {
      arguments->seed = std::strtoull(argv[i], nullptr, 10);
    } else if (name == "--count") {
      arguments->count = std::strtoull(argv[i], nullptr, 10);
    } else if (name == "--limit_s") {
      arguments->limit_s = static_cast<unsigned>(std::strtoul(argv[i], nullptr, 10));
    } else if (name == "--seeds") {
      if (!ReadSeeds(argv[i], &arguments->kept)) return false;
    } else if (name == "--meddle") {
      arguments->meddle = MeddleByName(argv[i]);
      if (arguments->meddle == Meddle::kNothing) return false;
    } else {
      return false;
    }
  }
  return true;
}

Outcome SimulateOnce(const Arguments& arguments, uint64_t seed, bool print) {
  seed_now = seed;
  LimitProcessorTime(arguments.limit_s);
  SeedSystemRandom(seed);
  Outcome outcome = Simulate(seed, arguments.meddle, print);
  LimitProcessorTime(0);
  return outcome;
}

void RunSeed(const Arguments& arguments, uint64_t seed, Totals* totals) {
  Outcome outcome = SimulateOnce(arguments, seed, arguments.trace);
  if (arguments.twice) {
    uint64_t again = SimulateOnce(arguments, seed, false).sum;
    if (again != outcome.sum) outcome.findings.push_back({"not-repeatable", "the same seed gave another run"});
  }
  ++totals->seeds;
  totals->faults += outcome.faults;
  totals->meddled += outcome.meddled ? 1 : 0;
  totals->virtual_s += static_cast<double>(outcome.virtual_ns) / kSecondNs;
  for (size_t code = 0; code <= kCodeMax; ++code) totals->ends[code] += outcome.ends[code];
  if (arguments.trace) std::printf("seed %" PRIu64 ": sum %016" PRIx64 "\n", seed, outcome.sum);
  if (outcome.findings.empty()) return;
  ++totals->failed;
  for (const Finding& finding : outcome.findings) {
    std::printf("seed %" PRIu64 ": finding %s: %s\n", seed, finding.kind.c_str(), finding.text.c_str());
  }
  PrintReplay(seed);
}

void PrintTotals(const Totals& totals) {
  uint64_t calls = 0;
  for (uint64_t ends : totals.ends) calls += ends;
  std::printf("%" PRIu64 " seeds, %" PRIu64 " calls, %" PRIu64 " faults, %.0f s of virtual time:", totals.seeds, calls,
              totals.faults, totals.virtual_s);
  for (size_t code = 0; code <= kCodeMax; ++code) {
    if (totals.ends[code] > 0) std::printf(" %s %" PRIu64, CodeName(static_cast<Code>(code)), totals.ends[code]);
  }
  std::printf("\n%" PRIu64 " seeds with findings\n", totals.failed);
}

int Main(int argc, char** argv) {
  Arguments arguments;
  if (!Parse(argc, argv, &arguments)) {
    std::fprintf(stderr,
                 "usage: fusewire_simulation [--seed N] [--count K] [--trace] [--twice] [--seeds FILE] [--meddle KIND] "
                 "[--limit_s S]\n");
    return 2;
  }
  CatchDeath();
  SetLogLevel(arguments.trace ? LogLevel::kInfo : LogLevel::kOff);
  SetLogSink([](LogLevel, const char* line, void*) { std::printf("%16s  log: %s\n", "", line); }, nullptr);
  Totals totals;
  for (uint64_t seed : arguments.kept) RunSeed(arguments, seed, &totals);
  for (uint64_t i = 0; i < arguments.count; ++i) RunSeed(arguments, arguments.seed + i, &totals);
  PrintTotals(totals);
  if (arguments.meddle != Meddle::kNothing) {
    std::printf("meddled in %" PRIu64 " seeds; expected: finding %s\n", totals.meddled, FindingOf(arguments.meddle));
  }
  return totals.failed > 0 ? 1 : 0;
}

}  // namespace
}  // namespace fusewire::simulation

int main(int argc, char** argv) { return fusewire::simulation::Main(argc, argv); }
