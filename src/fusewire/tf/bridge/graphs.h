// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The graphs that a session has registered with TensorFlow's worker. Its GraphMgr has no way to run one by anything but
// TensorFlow's own executor: here another one takes its place.
// Home: any thread. Owns: nothing. Fails: never.
#pragma once

#include <functional>
#include <memory>
#include <string>

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

}  // namespace fusewire::tf
