// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Takes the groups of a graph (star/cut/grouping.h) out of it. In each one's place comes one operation at home,
// _FusewireRun, that has the group's inputs and outputs and carries what the parameter server needs to run it, in the
// form in which TensorFlow registers a partition: its nodes, with _Arg and _Retval nodes at the ends, the functions
// that they call, and how the session wants graphs to be optimised. Home: any thread. Owns: nothing. Fails: with a
// status, and the graph is as before.
#ifndef FUSEWIRE_TF_STAR_CUT_CUT_H_
#define FUSEWIRE_TF_STAR_CUT_CUT_H_

#include <string>

#include <tensorflow/core/framework/function.h>
#include <tensorflow/core/graph/graph.h>
#include <tensorflow/core/protobuf/config.pb.h>
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/star/cut/grouping.h"

namespace fusewire {
namespace tf {

constexpr const char* kRunOp = "_FusewireRun";
// On the _Arg of a piece that is not the worker's to give: the number of the value that an earlier piece has left.
constexpr const char* kTakeAttribute = "_fusewire_take";
// On the _Retval of a piece that stays among parameter servers: its number, how many pieces will take it, and the task
// that shall keep it; empty: the one that has it.
constexpr const char* kKeepAttribute = "_fusewire_keep";
constexpr const char* kTakersAttribute = "_fusewire_takers";
constexpr const char* kHolderAttribute = "_fusewire_holder";

struct CutOptions {
  std::string home;                                                // the device that the operations come to
  const tensorflow::FunctionLibraryDefinition* library = nullptr;  // null: the graph's own
  // Of the session: what TensorFlow optimises partitions by.
  tensorflow::ConfigProto config;
};
TfStatus CutGroups(const Grouping& grouping, const CutOptions& options, tensorflow::Graph* graph);

}  // namespace tf
}  // namespace fusewire

#endif  // FUSEWIRE_TF_STAR_CUT_CUT_H_
