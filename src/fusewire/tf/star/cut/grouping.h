// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Decides which nodes of a graph run together on a parameter server, as one call.
// Time is counted in rounds. Nodes that the worker can run without any parameter server are in round 0; those that a
// parameter server can run after them, in round 1; those that the worker can run then, in round 2; and so on: a node's
// round is the first that its inputs allow, even for the worker, odd for a parameter server. All nodes of one device
// and one round are one group. Every path from one group to another leads to a later round, so the groups never wait
// for each other in a circle.
// A node without effects whose results only later groups of its own device use is in the first of these instead.
// A group is one call, so either all its inputs arrive or none, and its outputs come together. Therefore all nodes of a
// group stand under the same conditions of the worker (guards), and wait for the same blocking operations. A group may
// have conditions inside; a tensor that leaves it under such a condition goes through a Switch at home.
// What is read for the next step (kAheadAttribute) has groups of its own: it need not wait for what this one computes.
// Sources (variables, tables, constants: nodes without inputs) are not computed but named: each group has its own copy.
// A function is one node on one device: it may block if one of its operations may.
// Left to send and receive: loops, functions that have operations elsewhere, and nodes that take a reference or a
// handle from another group. Home: any thread. Owns: nothing of the graph. Fails: never; a graph that can't be grouped
// has no groups.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <tensorflow/core/framework/function.h>
#include <tensorflow/core/framework/types.h>
#include <tensorflow/core/graph/graph.h>
#include "fusewire/tf/bridge/compat.h"

namespace fusewire::tf {

// Facts about the functions that a node calls, by its own name or by an attribute, and about those that they call.
// Home: one thread. Owns: the facts found so far. Fails: never; a missing function does nothing.
class Functions {
 public:
  // `library` outlives it; null if there are no functions.
  explicit Functions(const tensorflow::FunctionLibraryDefinition* library) : library_(library) {}

  struct Facts {
    bool may_block = false;     // one of its operations may, see MayBlock
    bool is_elsewhere = false;  // one of them is on another device than the node, or belongs to the session
  };
  Facts Of(const tensorflow::Node& node);

 private:
  Facts OfName(const std::string& name, const std::string& device);
  Facts OfCalled(const tensorflow::NodeDef& def, const std::string& device);

  const tensorflow::FunctionLibraryDefinition* const library_;
  std::map<std::pair<std::string, std::string>, Facts> known_;  // by name and the caller's device
};

// Sets of numbers that are compared often, each known by a number; 0 is the empty one.
// Home: one thread. Owns: the sets.
class Sets {
 public:
  using Set = std::set<int>;
  Sets() { Number({}); }
  int Number(const Set& set) {
    auto added = numbers_.emplace(set, static_cast<int>(sets_.size()));
    if (added.second) sets_.push_back(set);
    return added.first->second;
  }
  const Set& at(int number) const { return sets_[static_cast<size_t>(number)]; }
  int Union(int left, int right) {
    if (left == right || right == 0) return left;
    if (left == 0) return right;
    Set both = at(left);
    both.insert(at(right).begin(), at(right).end());
    return Number(both);
  }

 private:
  std::map<Set, int> numbers_;
  std::vector<Set> sets_;
};

struct GroupingOptions {
  // Whether nodes on this device may be cut out.
  std::function<bool(const std::string& device)> is_served;
  // Facts about the graph's functions; null: it has none.
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
  // By node id, for nodes in groups: the conditions of the group under which the node stands.
  std::vector<std::vector<Condition>> conditions;
  // Merges that have to go to the worker: one of their inputs comes from there.
  std::vector<tensorflow::Node*> to_home;
  // By node id: groups of its device copy it instead of receiving from it.
  std::vector<bool> is_source;
  // The number of nodes that were left to send and receive, by reason.
  std::map<std::string, int> left;
};

TfStatus MakeGroups(const tensorflow::Graph& graph, const GroupingOptions& options, Grouping* out);

// The properties of single operations that matter to star_server.
// Home: any thread.

// Operations whose result may wait for other steps. A group may wait for one only if all its nodes do.
bool MayBlock(const std::string& op);
// It may take long in any run, since it waits for other steps, or for files.
bool MayTakeLong(const std::string& op);
// It changes nothing that outlives its step, so it may run again if its result is lost. An operation that we don't know
// counts as a writer.
bool OnlyReads(const tensorflow::Node& node);
// It writes a checkpoint's files from what it is given. Once it has ended, it may run again.
bool SavesFiles(const std::string& op);
// Operations that belong to the session or to other tasks, and not to a parameter server's step.
bool BelongsElsewhere(const std::string& op);
// Of a resource, which can't be moved.
bool IsHandle(tensorflow::DataType type);
bool HasInputs(const tensorflow::Node& node);
// Not that of tf.switch_case, whose branches have numbers.
bool IsSwitchOfTwo(const tensorflow::Node& node);
// A variable, a table, a constant: it is named, not computed.
bool IsNamed(const tensorflow::Node& node);

// ---- before: straighten.cc ----

// The edge from the node that computes this edge's tensor, without detours.
const tensorflow::Edge* OriginOf(const tensorflow::Edge* edge);

void Straighten(const std::function<bool(const std::string& device)>& is_served, tensorflow::Graph* graph);

// ---- at the end: postpone.cc ----

// A node's group is that of its place and round.
struct Placed {
  static constexpr int kNowhere = -1;
  int place = kNowhere;
  int round = 0;
  bool may_move = false;  // it is a node for itself, always runs, waits for nobody, and makes no handle
};

// `order`: each node behind its inputs. `is_copied`: of an edge from what each group has a copy of. `placed`: by node
// id.
void Postpone(const std::vector<tensorflow::Node*>& order,
              const std::function<bool(const tensorflow::Edge*)>& is_copied, std::vector<Placed>* placed);

}  // namespace fusewire::tf
