// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// star_server: takes the nodes on parameter servers out of a session's graph, in the master, before it is partitioned.
// Home: any thread. Owns: nothing. Fails: never; nodes that can't be cut out stay with send and receive, and the log
// has the reason.
#ifndef FUSEWIRE_TF_STAR_CUT_STAR_PASS_H_
#define FUSEWIRE_TF_STAR_CUT_STAR_PASS_H_

#include "fusewire/tf/bridge/compat.h"

#include <tensorflow/core/common_runtime/optimization_registry.h>

namespace fusewire {
namespace tf {

class StarPass final : public tensorflow::GraphOptimizationPass {
 public:
  TfStatus Run(const tensorflow::GraphOptimizationPassOptions& options) override;
};

}  // namespace tf
}  // namespace fusewire

#endif  // FUSEWIRE_TF_STAR_CUT_STAR_PASS_H_
