// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// star_server: takes the nodes on parameter servers out of a session's graph, in the master, before it is partitioned.
// Home: any thread. Fails: never; nodes that can't be cut out stay with send and receive, and the log
// has the reason.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <tensorflow/core/common_runtime/optimization_registry.h>
#include "fusewire/tf/bridge/compat.h"

namespace fusewire::tf {

class StarPass final : public tensorflow::GraphOptimizationPass {
 public:
  TfStatus Run(const tensorflow::GraphOptimizationPassOptions& options) override;
};

// The servers of this process that cut the graphs of their sessions. A graph pass does not know its session's server,
// but it sees the session's devices, whose incarnations are unique.
// Home: any thread. Owns: what is registered, until the process ends, as TensorFlow's servers live.

enum class StarMode { kOff, kFull, kLite };

struct StarHome {
  StarMode mode = StarMode::kOff;
  std::string protocol;  // for logs
  // Whether this task accepts parts of a graph; may wait for its answer.
  std::function<bool(const std::string& task)> reaches;
};

void RegisterHome(uint64_t device_incarnation, StarHome home);
// Null if there is none.
const StarHome* FindHome(uint64_t device_incarnation);

}  // namespace fusewire::tf
