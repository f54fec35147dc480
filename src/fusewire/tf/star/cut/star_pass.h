// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// star_server: takes the nodes on parameter servers out of a session's graph, in the master, before it is partitioned.
// Home: any thread. Fails: never; nodes that can't be cut out stay with send and receive, and the log
// has the reason.
#pragma once

#include "fusewire/tf/bridge/compat.h"

#include <tensorflow/core/common_runtime/optimization_registry.h>

namespace fusewire::tf {

class StarPass final : public tensorflow::GraphOptimizationPass {
 public:
  TfStatus Run(const tensorflow::GraphOptimizationPassOptions& options) override;
};

}  // namespace fusewire::tf
