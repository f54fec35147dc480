// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A part of a graph that a parameter server runs for workers: its kernels, and a Program to run them if that suffices,
// otherwise TensorFlow's executor. Home: any thread; many runs at once. Owns: the graph's functions and kernels; shares
// the session that it belongs to. Its destructor may wait for the task's pool, so it is destroyed on the thread of
// `ends`, not on one of the pool's. Fails: Make, with the reason; a run, with the status that the graph's own step
// would have.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <tensorflow/core/common_runtime/executor.h>
#include <tensorflow/core/common_runtime/process_function_library_runtime.h>
#include <tensorflow/core/distributed_runtime/worker_env.h>
#include <tensorflow/core/distributed_runtime/worker_session.h>
#include <tensorflow/core/protobuf/worker.pb.h>
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/star/serve/end_thread.h"
#include "fusewire/tf/star/serve/program.h"

namespace fusewire::tf {

class Part;
// shared_ptr: a run may outlast the registration.
using PartPtr = std::shared_ptr<Part>;
// shared_ptr: as the session manager holds it.
using SessionPtr = std::shared_ptr<tensorflow::WorkerSession>;
// shared_ptr: as graphs hold it.
using PropertiesPtr = std::shared_ptr<const tensorflow::NodeProperties>;

class Part {
 public:
  struct Owner {
    tensorflow::WorkerEnv* env = nullptr;
    SessionPtr session;  // null: the part belongs to the task, and serves all sessions
    std::string handle;  // kernels with state of their own are kept by this name
    // Parts are deleted there; it outlives them. Null: a part is deleted where its last reference is dropped.
    EndThread* ends = nullptr;
  };
  static TfStatus Make(const tensorflow::RegisterGraphRequest& request, Owner owner, PartPtr* out);
  ~Part();
  Part(const Part&) = delete;

  // Whether some kernel keeps state that each session must have for itself.
  static bool NeedsSession(const tensorflow::GraphDef& graph);

  tensorflow::Device* device() const { return device_; }
  // Of all arguments, and how many of them, the first, come from the worker; the others have been left by earlier
  // parts.
  const std::vector<tensorflow::DataType>& args() const { return args_; }
  size_t given() const { return args_.size() - takes_.size(); }
  const std::vector<uint32_t>& takes() const { return takes_; }
  // Of the results, the first go to the worker; the others are kept, here or by another task.
  size_t returned() const { return rets_.size() - keeps_.size(); }
  struct Kept {
    uint32_t number = 0;
    uint32_t takers = 0;
    std::string holder;  // empty: here
  };
  const std::vector<Kept>& keeps() const { return keeps_; }
  bool is_sending() const { return is_sending_; }
  // It ends soon, and does not wait: a reactor may run it.
  bool is_quick() const;
  // Calls `done` once, here or on another thread. `run` lives until then.
  void Run(PartRun* run, std::function<void(const TfStatus&)> done);

 private:
  explicit Part(Owner owner);
  TfStatus Build(const tensorflow::RegisterGraphRequest& request);
  TfStatus Optimize(const tensorflow::OptimizerOptions& options);
  TfStatus MakeProgram();
  TfStatus ReadEnds(int nodes);
  TfStatus MakeKernel(const PropertiesPtr& properties, tensorflow::OpKernel** kernel);
  void DropKernel(tensorflow::OpKernel* kernel);
  bool IsShared(const std::string& op) const;
  void RunInExecutor(PartRun* run, std::function<void(const TfStatus&)> done);
  void Measured(int64_t ns);

  const Owner owner_;
  tensorflow::Device* device_ = nullptr;
  std::vector<tensorflow::DataType> args_, rets_;
  std::vector<uint32_t> takes_;  // by argument, from given() on
  std::vector<Kept> keeps_;      // by result, from returned() on
  bool is_sending_ = false;
  std::unique_ptr<tensorflow::FunctionLibraryDefinition> definitions_;
  std::unique_ptr<tensorflow::ProcessFunctionLibraryRuntime> libraries_;
  tensorflow::FunctionLibraryRuntime* library_ = nullptr;
  std::unique_ptr<tensorflow::Graph> graph_;
  std::vector<tensorflow::OpKernel*> kernels_;  // of the program
  std::unique_ptr<Program> program_;            // null: executor_ runs it
  std::unique_ptr<tensorflow::Executor> executor_;
  bool may_take_long_ = false;  // a kernel may, even if it was quick so far
  std::atomic<int64_t> usual_ns_{INT64_MAX};
};

}  // namespace fusewire::tf
