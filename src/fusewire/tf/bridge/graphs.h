// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The graphs that a session has registered with TensorFlow's worker, and what a pass over a graph asks about its nodes.
// TensorFlow's GraphMgr has no way to run a graph by anything but TensorFlow's own executor: here another one takes its
// place.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tensorflow/core/common_runtime/device.h>
#include <tensorflow/core/common_runtime/executor.h>
#include <tensorflow/core/distributed_runtime/graph_mgr.h>
#include <tensorflow/core/framework/function.h>
#include <tensorflow/core/graph/graph.h>

namespace fusewire::tf {

// A graph that is on one device of this task, as it is run.
struct RegisteredGraph {
  const tensorflow::Graph* graph = nullptr;  // these outlive the executor
  tensorflow::Device* device = nullptr;
  tensorflow::FunctionLibraryRuntime* library = nullptr;
};

// Before its first step: `wrap` gets the graph's executor, and returns the one that is to take its place. Not called
// for a graph on several devices. The graph's end deletes it.
using WrapExecutor =
    std::function<std::unique_ptr<tensorflow::Executor>(const RegisteredGraph&, std::unique_ptr<tensorflow::Executor>)>;
void ReplaceExecutor(tensorflow::GraphMgr* graphs, const std::string& handle, const WrapExecutor& wrap);

// Null: the node has no such input.
const tensorflow::Edge* InputOf(const tensorflow::Node& node, int index);
// The whole numbers of a constant, one or a list of them. `edge` may be null.
std::optional<std::vector<int64_t>> NumbersOf(const tensorflow::Edge* edge);

}  // namespace fusewire::tf
