// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The ways between the members, and what is wrong with each at the moment. Several faults may lie on one way.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "plan.h"
#include "run.h"

namespace fusewire::simulation {

class Links {
 public:
  explicit Links(Run* run) : run_(*run) {}

  // Of what goes from `fault.one` to `fault.other`, and back if it is both ways. Returns its name for Remove.
  int Add(const Fault* fault);
  void Remove(int id);
  void Clear();
  // After a member has changed its place.
  void Apply();
  // Nothing arrives on this way.
  bool silent(int from, int to) const { return silent_since_.count({from, to}) > 0; }
  int64_t silent_since_ns(int from, int to) const { return silent_since_.at({from, to}); }

 private:
  transport::LoopbackFaults FaultsOf(int from, int to) const;
  void ApplyOne(int from, int to);

  Run& run_;
  int next_id_ = 1;
  std::map<int, const Fault*> faults_;  // in the order in which they came
  std::map<std::pair<int, int>, int64_t> silent_since_;
};

}  // namespace fusewire::simulation
