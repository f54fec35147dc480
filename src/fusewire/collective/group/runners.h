// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Finds a runner for an operation: chooses its algorithm, and takes an idle runner for the same parameters, or makes
// one.
// Home: the endpoint's. Owns: idle runners, within a bound. Fails: Prepare, if the arrays do not match the counts.
// An idle runner is not running, and belongs to the epoch of its key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "fusewire/base/status.h"
#include "fusewire/collective/group/group_operation.h"
#include "fusewire/collective/group/seats.h"
#include "fusewire/collective/run/schedule_runner.h"
#include "fusewire/p2p/endpoint.h"

namespace fusewire::collective {

class Runners {
 public:
  Runners(p2p::Endpoint& endpoint, const GroupOptions& options, const Seats* seats, RunnerOwner* owner)
      : endpoint_(endpoint), options_(options), seats_(seats), owner_(owner) {}

  // Gives it a runner that may begin, and completes its fingerprint. A plan keeps its runner.
  Status Prepare(GroupOperation* operation);
  // Makes its runner idle, after its end.
  void TakeBack(GroupOperation* operation);
  void Clear();

 private:
  Status Choose(GroupOperation* operation, Request* request);
  Result<std::unique_ptr<ScheduleRunner>> Find(const Request& request, GroupOperation* operation);

  p2p::Endpoint& endpoint_;
  const GroupOptions& options_;
  const Seats* const seats_;
  RunnerOwner* const owner_;
  std::unordered_map<std::string, std::vector<std::unique_ptr<ScheduleRunner>>> idle_;
  size_t idle_nodes_ = 0;  // the nodes of all idle runners, plus one for each runner
};

}  // namespace fusewire::collective
