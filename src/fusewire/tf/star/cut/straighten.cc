// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Removes detours through the worker: a tensor that a parameter server gets back through an Identity, a wait through a
// NoOp (tf.group), and conditions that only pass the worker (the pivots of tf.cond). Each would cost a round. Also
// copies constants of the worker, which would travel in every step.
// Home: any thread. Fails: never; other nodes stay as they are. The graph keeps its meaning.
#include "fusewire/tf/star/cut/grouping.h"

#include <utility>

#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>
#include <tensorflow/core/framework/node_def_util.h>
#include <tensorflow/core/graph/algorithm.h>
#include <tensorflow/core/graph/control_flow.h>
#include "fusewire/tf/bridge/names.h"

namespace fusewire::tf {

using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;

namespace {

// The input of a node that has exactly one edge of any kind coming in; otherwise null.
const Edge* OnlyInput(const Node& node) {
  const Edge* only = nullptr;
  for (const Edge* edge : node.in_edges()) {
    if (!edge->src()->IsOp()) continue;
    if (only != nullptr || edge->IsControlEdge()) return nullptr;
    only = edge;
  }
  return only;
}

// The pivot of a branch of tf.cond: an Identity of one output of a Switch that switches its own condition.
const Edge* ConditionOfPivot(const Node& node, int* branch) {
  const Edge* through = node.type_string() == "Identity" ? OnlyInput(node) : nullptr;
  if (through == nullptr || through->src()->type_string() != "Switch") return nullptr;
  const Edge *data = nullptr, *condition = nullptr;
  if (!through->src()->input_edge(0, &data).ok() || !through->src()->input_edge(1, &condition).ok()) return nullptr;
  data = OriginOf(data);
  condition = OriginOf(condition);
  if (data->src() != condition->src() || data->src_output() != condition->src_output()) return nullptr;
  for (const Edge* edge : through->src()->in_edges()) {
    if (edge->IsControlEdge() && edge->src()->IsOp()) return nullptr;
  }
  *branch = through->src_output();
  return condition;
}

class Straightener {
 public:
  Straightener(const std::function<bool(const std::string&)>& is_served, Graph* graph)
      : is_served_(is_served), graph_(graph) {}

  void Run() {
    if (!tensorflow::BuildControlFlowInfo(graph_, &control_flow_).ok()) return;
    std::vector<const Edge*> data, controls;
    for (const Edge* edge : graph_->edges()) {
      if (!edge->src()->IsOp() || !edge->dst()->IsOp() || !IsStraightened(*edge->dst())) continue;
      if (edge->src()->assigned_device_name() == edge->dst()->assigned_device_name()) continue;
      (edge->IsControlEdge() ? controls : data).push_back(edge);
    }
    for (const Edge* edge : data) {
      if (edge->src()->IsConstant()) {
        HaveConstant(edge);
      } else {
        GoStraight(edge);
      }
    }
    for (const Edge* edge : controls) HandDown(edge);
    for (Node* node : graph_->op_nodes()) {
      if (IsStraightened(*node)) WaitForItself(node);
    }
  }

 private:
  // Not in a loop: loops stay with send and receive, and their constants belong to them by their control inputs.
  bool IsStraightened(const Node& node) const {
    const auto id = static_cast<size_t>(node.id());
    const bool is_in_loop = id < control_flow_.size() && !control_flow_[id].frame_name.empty();
    return !is_in_loop && is_served_(node.assigned_device_name());
  }

  // A constant of the worker is a constant everywhere. Its consumer takes over its control inputs, and is dead with
  // them; but not a Merge, which would then have two values.
  void HaveConstant(const Edge* edge) {
    Node *constant = edge->src(), *to = edge->dst();
    if (to->IsMerge() && HasInputs(*constant)) return;
    const std::string& device = to->assigned_device_name();
    Node*& known = constants_[{device, constant->name()}];
    if (known == nullptr) {
      tensorflow::NodeDef def = constant->def();
      def.clear_input();
      def.set_name(NameAt(absl::StrCat(constant->name(), "/fusewire_const"), device));
      known = Add(std::move(def), device);
    }
    if (known == nullptr) return;
    int input = edge->dst_input();
    graph_->RemoveEdge(edge);
    graph_->AddEdge(known, 0, to, input);
    for (const Edge* before : constant->in_edges()) {
      if (before->src()->IsOp()) graph_->AddControlEdge(before->src(), to);
    }
  }

  void GoStraight(const Edge* edge) {
    const Edge* origin = OriginOf(edge);
    Node* to = edge->dst();
    if (origin == edge || origin->src()->assigned_device_name() != to->assigned_device_name()) return;
    Node* from = origin->src();
    int output = origin->src_output(), input = edge->dst_input();
    graph_->RemoveEdge(edge);
    graph_->AddEdge(from, output, to, input);
  }

  // tf.group makes a NoOp at the worker that waits for nodes on parameter servers: its consumers wait for them
  // directly.
  void WaitForItself(Node* node) {
    std::vector<const Edge*> todo(node->in_edges().begin(), node->in_edges().end());
    while (!todo.empty()) {
      const Edge* edge = todo.back();
      todo.pop_back();
      Node* group = edge->src();
      bool is_group = edge->IsControlEdge() && group->type_string() == "NoOp" &&
                      !is_served_(group->assigned_device_name()) && HasInputs(*group);
      if (!is_group) continue;
      graph_->RemoveEdge(edge);
      for (const Edge* before : group->in_edges()) {
        if (!before->src()->IsOp()) continue;
        const Edge* added = graph_->AddControlEdge(before->src(), node);
        if (added != nullptr) todo.push_back(added);  // otherwise it has that edge already
      }
    }
  }

  void HandDown(const Edge* edge) {
    int branch = 0;
    const Edge* condition = ConditionOfPivot(*edge->src(), &branch);
    if (condition == nullptr) return;
    Node* to = edge->dst();
    Node* pivot = PivotAt(to->assigned_device_name(), *edge->src(), condition->src(), condition->src_output(), branch);
    if (pivot == nullptr) return;
    graph_->RemoveEdge(edge);
    graph_->AddControlEdge(pivot, to);
  }

  // The same pivot on another device. Its name derives from its origin, so that equal graphs stay equal.
  Node* PivotAt(const std::string& device, const Node& pivot, Node* condition, int output, int branch) {
    Node*& known = pivots_[{device, pivot.name()}];
    if (known != nullptr) return known;
    Node* through = AddBool(absl::StrCat(pivot.name(), "/fusewire_switch"), "Switch", device);
    Node* made =
        through == nullptr ? nullptr : AddBool(absl::StrCat(pivot.name(), "/fusewire_pivot"), "Identity", device);
    if (made == nullptr) return nullptr;
    graph_->AddEdge(condition, output, through, 0);
    graph_->AddEdge(condition, output, through, 1);
    graph_->AddEdge(through, branch, made, 0);
    return known = made;
  }

  Node* AddBool(const std::string& name, const char* op, const std::string& device) {
    tensorflow::NodeDef def;
    def.set_name(NameAt(name, device));
    def.set_op(op);
    tensorflow::AddNodeAttr("T", tensorflow::DT_BOOL, &def);
    return Add(std::move(def), device);
  }

  Node* Add(tensorflow::NodeDef def, const std::string& device) {
    def.set_device(device);
    TfStatus added;
    Node* node = graph_->AddNode(std::move(def), &added);
    if (!added.ok()) return nullptr;
    node->set_assigned_device_name(device);
    return node;
  }

  // A name that does not depend on the order of the graph's nodes: "one/fusewire_const/job_ps/replica_0/task_1".
  static std::string NameAt(const std::string& name, const std::string& device) {
    return absl::StrCat(name, absl::StrReplaceAll(TaskOfDevice(device), {{":", "_"}}));
  }

  const std::function<bool(const std::string&)>& is_served_;
  Graph* const graph_;
  std::vector<tensorflow::ControlFlowInfo> control_flow_;  // by node id, of the nodes that were there before
  std::map<std::pair<std::string, std::string>, Node*> pivots_, constants_;  // by device and name
};

}  // namespace

const Edge* OriginOf(const Edge* edge) {
  while (edge->src()->type_string() == "Identity" && !edge->IsControlEdge()) {
    const Edge* input = OnlyInput(*edge->src());
    if (input == nullptr || tensorflow::IsRefType(input->src()->output_type(input->src_output()))) break;
    edge = input;
  }
  return edge;
}

void Straighten(const std::function<bool(const std::string& device)>& is_served, Graph* graph) {
  Straightener(is_served, graph).Run();
  // The search for loops begins at the source: otherwise it would miss nodes that depend only on these constants.
  tensorflow::FixupSourceAndSinkEdges(graph);
}

}  // namespace fusewire::tf
