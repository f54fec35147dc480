// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// tensor_fuse: two passes over graphs, one in the master that marks, one in each task that fuses. plugin.cc registers
// them. See fuse/levels.h for what may be fused.
// Home: any thread. Owns: nothing. Fails: never; what cannot be fused stays as it is.
#ifndef FUSEWIRE_TF_FUSE_PASSES_H_
#define FUSEWIRE_TF_FUSE_PASSES_H_

#include "fusewire/tf/bridge/compat.h"

#include <tensorflow/core/common_runtime/optimization_registry.h>
#include <tensorflow/core/protobuf/config.pb.h>

namespace fusewire {
namespace tf {

// Whether a session's config, or without a word in it the environment's default, wants receives to be fused.
void SetFuseByDefault(bool fuse);
bool WantsFuse(const tensorflow::ConfigProto& config);
// While it is above 0, graphs stay as they are: the parts of a partial run wait for feeds that come later.
void HoldFusion(int change);
bool AreGraphsHeld();

class MarkPass final : public tensorflow::GraphOptimizationPass {
 public:
  TfStatus Run(const tensorflow::GraphOptimizationPassOptions& options) override;
};

class FusePass final : public tensorflow::GraphOptimizationPass {
 public:
  TfStatus Run(const tensorflow::GraphOptimizationPassOptions& options) override;
};

}  // namespace tf
}  // namespace fusewire

#endif  // FUSEWIRE_TF_FUSE_PASSES_H_
