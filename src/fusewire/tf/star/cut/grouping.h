// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Which nodes of a graph run together on a parameter server, as one call.
//
// Time is counted in rounds. What the worker can do without any parameter server is round 0; what a parameter server
// can do with that, round 1; what the worker can do then, round 2; and so on: a node's round is the first that its
// inputs allow, even for the worker, odd for a parameter server. All nodes of one device and one round are one group.
// Every path from one group to another leads to a later round, so the groups never wait for each other in a circle.
//
// A group is one call, so its inputs are all there or none of them, and its outputs come together. What may come to
// nothing or wait without limit outside is therefore kept apart: nodes of a group stand under the same conditions of
// the worker (guards), and wait for the same blocking operations. Conditions within a group are its own affair; what
// leaves it under one goes through a Switch at home.
//
// Sources (variables, tables, constants: nodes without inputs) are not computed but named: each group has its own copy.
//
// A function is one node, and runs where it stands: it may block if one of its operations may.
//
// Left to send and receive: loops, functions that have operations elsewhere, and what takes a reference or a handle
// from another group. Home: any thread. Owns: nothing of the graph. Fails: never; a graph that cannot be grouped has no
// groups.
#ifndef FUSEWIRE_TF_STAR_CUT_GROUPING_H_
#define FUSEWIRE_TF_STAR_CUT_GROUPING_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <tensorflow/core/framework/function.h>
#include <tensorflow/core/graph/graph.h>
#include "fusewire/tf/bridge/compat.h"

namespace fusewire {
namespace tf {

struct GroupingOptions {
  // Whether what stands on this device may be cut out.
  std::function<bool(const std::string& device)> is_served;
  // What the graph's functions do; null: it has none.
  const tensorflow::FunctionLibraryDefinition* library = nullptr;
  // As few groups as the dependencies allow, without more rounds (star_server_lite).
  bool merge = false;
};

struct Grouping {
  static constexpr int kNone = -1;

  struct Group {
    std::string device;
    int round = 0;
    std::vector<tensorflow::Node*> nodes;  // by name, so that equal graphs have equal groups
  };
  // The branch of a condition: 0 or 1, as the outputs of a Switch.
  struct Condition {
    tensorflow::Node* node;
    int output;
    int branch;
  };
  std::vector<Group> groups;  // by round
  std::vector<int> group_of;  // by node id; kNone for what is not in a group
  // By node id, of a group's node: under which conditions of its group it stands.
  std::vector<std::vector<Condition>> conditions;
  // Merges that have to go to the worker: something from there meets in them.
  std::vector<tensorflow::Node*> to_home;
  // By node id: groups of its device copy it instead of receiving from it.
  std::vector<bool> is_source;
  // Why how many nodes were left to send and receive.
  std::map<std::string, int> left;
};

TfStatus MakeGroups(const tensorflow::Graph& graph, const GroupingOptions& options, Grouping* out);

}  // namespace tf
}  // namespace fusewire

#endif  // FUSEWIRE_TF_STAR_CUT_GROUPING_H_
