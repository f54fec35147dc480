// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Takes the groups of a graph (star/cut/grouping.h) out of it. Each is replaced by one operation at home, _FusewireRun,
// which has the group's inputs and outputs, and carries the part for the parameter server in the form in which
// TensorFlow registers a partition: its nodes, with _Arg and _Retval nodes at the ends, the functions that they call,
// and the session's options for optimisation. Home: any thread. Fails: with a status, and the graph is
// unchanged.
#pragma once

#include <string>

#include <tensorflow/core/framework/function.h>
#include <tensorflow/core/graph/graph.h>
#include <tensorflow/core/protobuf/config.pb.h>
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/star/cut/grouping.h"

namespace fusewire::tf {

constexpr const char* kRunOp = "_FusewireRun";
// On an _Arg of a piece that does not come from the worker: the number of the value that an earlier piece has left.
constexpr const char* kTakeAttribute = "_fusewire_take";
// On a _Retval of a piece that stays among parameter servers: its number, how many pieces will take it, and the task
// that keeps it; empty: the one that computes it.
constexpr const char* kKeepAttribute = "_fusewire_keep";
constexpr const char* kTakersAttribute = "_fusewire_takers";
constexpr const char* kHolderAttribute = "_fusewire_holder";

struct CutOptions {
  std::string home;                                                // the device that the operations come to
  const tensorflow::FunctionLibraryDefinition* library = nullptr;  // null: the graph's own
  // Of the session: TensorFlow's options for optimising partitions.
  tensorflow::ConfigProto config;
};
TfStatus CutGroups(const Grouping& grouping, const CutOptions& options, tensorflow::Graph* graph);

}  // namespace fusewire::tf
