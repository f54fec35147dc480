// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Takes the groups of a graph (star/grouping.h) out of it. In each one's place comes one operation at home,
// _FusewireRun, that has the group's inputs and outputs and carries its nodes as a GraphDef with _Arg and _Retval nodes
// at the ends. Home: any thread. Owns: nothing. Fails: with a status, and the graph is as before.
#ifndef FUSEWIRE_TF_STAR_CUT_H_
#define FUSEWIRE_TF_STAR_CUT_H_

#include <string>

#include <tensorflow/core/graph/graph.h>
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/star/grouping.h"

namespace fusewire {
namespace tf {

constexpr const char* kRunOp = "_FusewireRun";

// `home` is the device that the operations come to.
TfStatus CutGroups(const Grouping& grouping, const std::string& home, tensorflow::Graph* graph);

}  // namespace tf
}  // namespace fusewire

#endif  // FUSEWIRE_TF_STAR_CUT_H_
