// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// tensor_fuse: two passes over graphs; one marks receives in the master, one fuses them in each task. plugin.cc
// registers them. MarkLevels() decides which may be fused.
// Home: any thread. Fails: never; other receives stay as they are.
#pragma once

#include <map>
#include <string>

#include <tensorflow/core/common_runtime/optimization_registry.h>
#include <tensorflow/core/graph/graph.h>
#include <tensorflow/core/protobuf/config.pb.h>
#include "fusewire/tf/bridge/compat.h"

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

// Decides which receives of a graph may become one. A node's level is the number of times that a tensor has to cross
// between tasks before the node can run. Two receives from one device whose producers have the same level can't wait
// for each other through this task: if one's producer needed the other's tensor, its level would be higher. So they may
// become one operation.
// Only the master sees the whole graph, before it is cut into partitions; the receives exist only afterwards, in each
// task. So the master writes the levels into the consumers' attributes, and each task reads them there. Left out are
// all nodes behind control flow (a tensor may be dead, or come once per iteration), and consumers that take a remote
// tensor by reference.
// Home: any thread. Fails: never; a graph without marks is not fused.

// Writes the marks; returns the number of marked edges between tasks.
int MarkLevels(tensorflow::Graph* graph);
// Reads the marks of a partition: the level of each remote producer, by its name.
std::map<std::string, int> ReadLevels(const tensorflow::Graph& partition);

}  // namespace fusewire::tf
