// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Removes detours through the worker: a tensor that a parameter server gets back through an Identity, a wait through a
// NoOp (tf.group), and conditions that only pass the worker (the pivots of tf.cond). Each would cost a round. Also
// copies constants of the worker, which would travel in every step.
// Home: any thread. Fails: never; other nodes stay as they are. The graph keeps its meaning.
#pragma once

#include <functional>
#include <string>

#include <tensorflow/core/graph/graph.h>

namespace fusewire::tf {

// The edge from the node that computes this edge's tensor, without detours.
const tensorflow::Edge* OriginOf(const tensorflow::Edge* edge);

void Straighten(const std::function<bool(const std::string& device)>& is_served, tensorflow::Graph* graph);

}  // namespace fusewire::tf
