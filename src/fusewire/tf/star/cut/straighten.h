// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Detours through the worker that say nothing: what a parameter server computes and gets back through an Identity, what
// it has to wait for through a NoOp (tf.group), and conditions that only the worker hands down (the pivots of tf.cond).
// Each would cost a round. And constants of the worker, which would travel in every step.
// Home: any thread. Owns: nothing. Fails: never; what it does not know stays. The graph means the same as before.
#ifndef FUSEWIRE_TF_STAR_CUT_STRAIGHTEN_H_
#define FUSEWIRE_TF_STAR_CUT_STRAIGHTEN_H_

#include <functional>
#include <string>

#include <tensorflow/core/graph/graph.h>
#include "fusewire/tf/bridge/compat.h"

namespace fusewire {
namespace tf {

// The edge that this one's tensor really comes from.
const tensorflow::Edge* OriginOf(const tensorflow::Edge* edge);

void Straighten(const std::function<bool(const std::string& device)>& is_served, tensorflow::Graph* graph);

}  // namespace tf
}  // namespace fusewire

#endif  // FUSEWIRE_TF_STAR_CUT_STRAIGHTEN_H_
