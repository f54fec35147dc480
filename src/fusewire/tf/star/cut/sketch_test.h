// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// For tests: a graph over a worker and parameter servers, drawn node by node.
// Home: one thread. Owns: the graph. Fails: the test.
#pragma once

#include <string>
#include <vector>

#include <absl/strings/match.h>
#include <gtest/gtest.h>
#include <tensorflow/core/framework/tensor.h>
#include <tensorflow/core/graph/algorithm.h>
#include <tensorflow/core/graph/node_builder.h>
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/star/cut/grouping.h"

namespace fusewire::tf {

struct Sketch {
  using Node = tensorflow::Node;
  using NodeBuilder = tensorflow::NodeBuilder;
  using Out = NodeBuilder::NodeOut;

  static constexpr const char* kPs = "/job:ps/replica:0/task:0/device:CPU:0";
  static constexpr const char* kOtherPs = "/job:ps/replica:0/task:1/device:CPU:0";
  static constexpr const char* kWorker = "/job:worker/replica:0/task:0/device:CPU:0";

  static bool IsServed(const std::string& device) { return absl::StartsWith(device, "/job:ps/"); }

  Node* Add(const NodeBuilder& builder, const std::string& device) {
    Node* node = nullptr;
    NodeBuilder mine = builder;
    TfStatus made = mine.Finalize(&graph, &node);
    EXPECT_TRUE(made.ok()) << made;
    node->set_assigned_device_name(device);
    return node;
  }
  // Of an operation whose attributes follow from its inputs.
  Node* Op(const std::string& name, const char* op, const std::string& device, const std::vector<Out>& inputs,
           const std::vector<Node*>& controls = {}) {
    NodeBuilder builder(name, op);
    for (const Out& input : inputs) builder.Input(input);
    for (Node* control : controls) builder.ControlInput(control);
    return Add(builder, device);
  }
  Node* Fed(const std::string& name, const std::string& device, tensorflow::DataType type = tensorflow::DT_FLOAT) {
    return Add(NodeBuilder(name, "Placeholder").Attr("dtype", type), device);
  }
  Node* Constant(const std::string& name, const std::string& device, float value) {
    return Constant(name, device, tensorflow::Tensor(value));
  }
  Node* Constant(const std::string& name, const std::string& device, const tensorflow::Tensor& value) {
    return Add(NodeBuilder(name, "Const").Attr("dtype", value.dtype()).Attr("value", value), device);
  }
  Node* Variable(const std::string& name, const std::string& device) {
    return Add(NodeBuilder(name, "VarHandleOp")
                   .Attr("dtype", tensorflow::DT_FLOAT)
                   .Attr("shape", tensorflow::TensorShape())
                   .Attr("shared_name", name),
               device);
  }
  Node* Read(const std::string& name, Node* variable, const std::vector<Node*>& controls = {}) {
    NodeBuilder builder(name, "ReadVariableOp");
    builder.Input(variable).Attr("dtype", tensorflow::DT_FLOAT);
    for (Node* control : controls) builder.ControlInput(control);
    return Add(builder, variable->assigned_device_name());
  }
  Node* Sum(const std::string& name, const std::string& device, const Out& left, const Out& right) {
    return Op(name, "AddV2", device, {left, right});
  }
  // Adds to a variable, where that stands.
  Node* Update(const std::string& name, Node* variable, const Out& by, const std::vector<Node*>& controls = {}) {
    return Op(name, "AssignAddVariableOp", variable->assigned_device_name(), {variable, by}, controls);
  }
  Node* Merge(const std::string& name, const std::string& device, const std::vector<Out>& inputs) {
    return Add(NodeBuilder(name, "Merge").Input(inputs), device);
  }

  Grouping Group(bool merge = false) {
    tensorflow::FixupSourceAndSinkEdges(&graph);
    GroupingOptions options;
    options.is_served = IsServed;
    options.merge = merge;
    Grouping grouping;
    TfStatus made = MakeGroups(graph, options, &grouping);
    EXPECT_TRUE(made.ok()) << made;
    return grouping;
  }
  Node* Find(const std::string& name) const {
    for (Node* node : graph.op_nodes()) {
      if (node->name() == name) return node;
    }
    return nullptr;
  }

  tensorflow::Graph graph{tensorflow::OpRegistry::Global()};
};

}  // namespace fusewire::tf
