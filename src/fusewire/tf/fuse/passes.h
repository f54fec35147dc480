// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// tensor_fuse: two passes over graphs; one marks receives in the master, one fuses them in each task. plugin.cc
// registers them. fuse/levels.h decides which may be fused.
// Home: any thread. Fails: never; other receives stay as they are.
#pragma once

#include "fusewire/tf/bridge/compat.h"

#include <tensorflow/core/common_runtime/optimization_registry.h>
#include <tensorflow/core/protobuf/config.pb.h>

namespace fusewire::tf {

// Whether receives are fused: by the session's config, or by the environment if the config has no setting.
void SetFuseByDefault(bool fuse);
bool WantsFuse(const tensorflow::ConfigProto& config);
// While it is above 0, graphs are not fused: the parts of a partial run wait for feeds that come later.
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

}  // namespace fusewire::tf
