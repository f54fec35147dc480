// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One run: brings the cluster up, lets it work while things go wrong, then lets it come to rest, and looks at what is
// left.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "links.h"
#include "run.h"

namespace fusewire::simulation {

struct Outcome {
  std::vector<Finding> findings;
  uint64_t sum = 0;  // of all that has happened
  bool meddled = false;
  // For the summary: how many calls ended with each code, and how many faults there were.
  std::array<uint64_t, kCodeMax + 1> ends{};
  uint64_t faults = 0;
  int64_t virtual_ns = 0;
};

Outcome Simulate(uint64_t seed, Meddle meddle, bool print);

class Cluster {
 public:
  explicit Cluster(Run* run) : run_(*run), links_(run) {}
  void Live();
  // An orderly end of everything; looks at what never came back.
  void TakeDown();

 private:
  // False: the world no longer comes to rest within one moment of its time.
  bool RunFor(int64_t duration_ns);
  void PlanStart(const Question& question);
  void PlanFault(const Fault& fault);
  void PlanLook();
  void Strike(const Fault& fault);
  void StrikeLinks(const Fault& fault);
  void StrikeMember(const Fault& fault);
  void PlanSilenceCheck(int asker, int peer);
  void CheckSilence(int asker, int peer, int64_t since_ns);
  void DisturbAll(int member);

  void EndFaults();
  bool FinishCalls();
  void CheckRecovery();
  void ProbeAll(const std::vector<std::pair<int, int>>& pairs);
  void CheckRest();

  Run& run_;
  Links links_;
};

}  // namespace fusewire::simulation
