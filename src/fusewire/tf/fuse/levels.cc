// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/fuse/levels.h"

#include <algorithm>
#include <vector>

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <tensorflow/core/framework/node_def_util.h>
#include <tensorflow/core/graph/algorithm.h>
#include "fusewire/base/check.h"

namespace fusewire::tf {

using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;

namespace {

constexpr const char* kLevelsAttribute = "_fusewire_levels";

// All nodes that control flow can reach: their levels depend on iterations, and their tensors may be dead.
std::vector<bool> BehindControlFlow(const Graph& graph) {
  std::vector<bool> behind(static_cast<size_t>(graph.num_node_ids()), false);
  std::vector<const Node*> todo;
  for (const Node* node : graph.op_nodes()) {
    if (!node->IsControlFlow()) continue;
    behind[static_cast<size_t>(node->id())] = true;
    todo.push_back(node);
  }
  while (!todo.empty()) {
    const Node* node = todo.back();
    todo.pop_back();
    for (const Edge* edge : node->out_edges()) {
      size_t id = static_cast<size_t>(edge->dst()->id());
      if (!edge->dst()->IsOp() || behind[id]) continue;
      behind[id] = true;
      todo.push_back(edge->dst());
    }
  }
  return behind;
}

bool TakesRemoteReference(const Node& node, const std::string& task) {
  for (const Edge* edge : node.in_edges()) {
    if (edge->IsControlEdge() || !edge->src()->IsOp()) continue;
    bool is_remote = TaskOfDevice(edge->src()->assigned_device_name()) != task;
    if (is_remote && tensorflow::IsRefType(node.input_type(edge->dst_input()))) return true;
  }
  return false;
}

}  // namespace

std::string TaskOfDevice(const std::string& device) {
  size_t end = device.find("/device:");
  return end == std::string::npos ? device : device.substr(0, end);
}

int MarkLevels(Graph* graph) {
  std::vector<bool> behind = BehindControlFlow(*graph);
  std::vector<Node*> order;
  tensorflow::GetReversePostOrder(*graph, &order);
  std::vector<int> levels(static_cast<size_t>(graph->num_node_ids()), 0);
  std::vector<std::string> tasks(levels.size());
  for (const Node* node : graph->op_nodes())
    tasks[static_cast<size_t>(node->id())] = TaskOfDevice(node->assigned_device_name());

  int marked = 0;
  for (Node* node : order) {
    size_t id = static_cast<size_t>(node->id());
    FUSEWIRE_DCHECK(id < levels.size());
    if (!node->IsOp() || behind[id]) continue;
    std::vector<std::string> marks;
    for (const Edge* edge : node->in_edges()) {
      if (!edge->src()->IsOp()) continue;
      size_t from = static_cast<size_t>(edge->src()->id());
      bool crosses = tasks[from] != tasks[id];
      levels[id] = std::max(levels[id], levels[from] + (crosses ? 1 : 0));
      if (crosses) marks.push_back(absl::StrCat(edge->src()->name(), "=", levels[from]));
    }
    if (marks.empty() || TakesRemoteReference(*node, tasks[id])) continue;
    marked += static_cast<int>(marks.size());
    node->AddAttr(kLevelsAttribute, marks);
  }
  return marked;
}

std::map<std::string, int> ReadLevels(const Graph& partition) {
  std::map<std::string, int> levels;
  for (const Node* node : partition.op_nodes()) {
    std::vector<std::string> marks;
    if (!tensorflow::TryGetNodeAttr(node->attrs(), kLevelsAttribute, &marks)) continue;
    for (const std::string& mark : marks) {
      size_t end = mark.rfind('=');
      int level = 0;
      if (end == std::string::npos || !absl::SimpleAtoi(mark.substr(end + 1), &level)) continue;
      levels[mark.substr(0, end)] = level;
    }
  }
  return levels;
}

}  // namespace fusewire::tf
