// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A part of a graph that a parameter server runs for workers: its kernels, and a Program to run them if that suffices,
// otherwise TensorFlow's executor. Home: any thread; many runs at once. Owns: the graph's functions and kernels; shares
// the session that it belongs to. Its destructor may wait for the task's pool, so it is destroyed on the thread of
// `ends`, not on one of the pool's. Fails: Make, with the reason; a run, with the status that the graph's own step
// would have.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <tensorflow/core/common_runtime/executor.h>
#include <tensorflow/core/common_runtime/process_function_library_runtime.h>
#include <tensorflow/core/distributed_runtime/worker_env.h>
#include <tensorflow/core/distributed_runtime/worker_session.h>
#include <tensorflow/core/protobuf/worker.pb.h>
#include "fusewire/base/mutex.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/heads/calls.h"
#include "fusewire/tf/star/serve/program.h"

namespace fusewire::tf {

// A thread that destroys objects whose destructors may wait, for threads that must not: a pool's, a reactor's. It
// starts with the first object. Home: any thread. Owns: the thread, and the objects that were left to it.
class EndThread {
 public:
  EndThread() = default;
  ~EndThread();  // waits until all objects are destroyed
  EndThread(const EndThread&) = delete;

  void Leave(std::function<void()> end);

 private:
  void Work();

  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> ends_ FUSEWIRE_GUARDED_BY(mutex_);
  bool is_closing_ FUSEWIRE_GUARDED_BY(mutex_) = false;
  std::thread thread_ FUSEWIRE_GUARDED_BY(mutex_);
};

class Part;
// shared_ptr: a run may outlast the registration.
using PartPtr = std::shared_ptr<Part>;
// shared_ptr: as the session manager holds it.
using SessionPtr = std::shared_ptr<tensorflow::WorkerSession>;
// shared_ptr: as graphs hold it.
using PropertiesPtr = std::shared_ptr<const tensorflow::NodeProperties>;

// The ends of a part: its arguments, of which the first come from the worker and the others were left by earlier parts;
// and its results, of which the first go to the worker and the others are kept, here or by another task.
class PartEnds {
 public:
  struct Kept {
    uint32_t number = 0;
    uint32_t takers = 0;
    std::string holder;  // empty: here
  };

  // Each end has its own index, without gaps; ends towards the worker come first. Fails otherwise.
  TfStatus Read(const tensorflow::Graph& graph, int nodes);

  const std::vector<tensorflow::DataType>& args() const { return args_; }
  const std::vector<tensorflow::DataType>& rets() const { return rets_; }
  size_t given() const { return args_.size() - takes_.size(); }
  size_t returned() const { return rets_.size() - keeps_.size(); }
  const std::vector<uint32_t>& takes() const { return takes_; }
  const std::vector<Kept>& keeps() const { return keeps_; }
  // Another task keeps a result.
  bool is_sending() const { return is_sending_; }

 private:
  std::vector<tensorflow::DataType> args_, rets_;
  std::vector<uint32_t> takes_;  // by argument, from given() on
  std::vector<Kept> keeps_;      // by result, from returned() on
  bool is_sending_ = false;
};

class Part {
 public:
  struct Owner {
    tensorflow::WorkerEnv* env = nullptr;
    SessionPtr session;              // null: the part belongs to the task, and serves all sessions
    std::string handle;              // kernels with state of their own are kept by this name
    Inventory* inventory = nullptr;  // see Program::Place
    // Parts are deleted there; it outlives them. Null: a part is deleted where its last reference is dropped.
    EndThread* ends = nullptr;
  };
  static TfStatus Make(const tensorflow::RegisterGraphRequest& request, Owner owner, PartPtr* out);
  ~Part();
  Part(const Part&) = delete;

  // Whether some kernel keeps state that each session must have for itself.
  static bool NeedsSession(const tensorflow::GraphDef& graph);

  tensorflow::Device* device() const { return program_ == nullptr ? device_ : program_->device(); }
  const PartEnds& ends() const { return ends_; }
  // What may be done with a run whose connection is lost.
  Again again() const { return again_; }
  // It ends soon, and does not wait: a reactor may run it.
  bool is_quick() const;
  // Calls `done` once, here or on another thread. `run` lives until then.
  void Run(PartRun* run, std::function<void(const TfStatus&)> done);

 private:
  explicit Part(Owner owner);
  TfStatus Build(const tensorflow::RegisterGraphRequest& request);
  TfStatus Optimize(const tensorflow::OptimizerOptions& options);
  Again FindAgain() const;
  TfStatus MakeProgram();
  void FindWritten();
  TfStatus MakeKernel(const PropertiesPtr& properties, tensorflow::OpKernel** kernel);
  void DropKernel(tensorflow::OpKernel* kernel);
  bool IsShared(const std::string& op) const;
  void RunInExecutor(PartRun* run, std::function<void(const TfStatus&)> done);
  void Measured(int64_t ns);

  const Owner owner_;
  tensorflow::Device* device_ = nullptr;
  PartEnds ends_;
  std::unique_ptr<tensorflow::FunctionLibraryDefinition> definitions_;
  std::unique_ptr<tensorflow::ProcessFunctionLibraryRuntime> libraries_;
  tensorflow::FunctionLibraryRuntime* library_ = nullptr;
  std::unique_ptr<tensorflow::Graph> graph_;
  std::vector<tensorflow::OpKernel*> kernels_;  // of the program
  std::unique_ptr<Program> program_;            // null: executor_ runs it
  std::unique_ptr<tensorflow::Executor> executor_;
  Again again_ = Again::kNever;
  std::vector<WriteMarks*> written_;  // by the executor, in any run
  bool may_take_long_ = false;        // a kernel may, even if it was quick so far
  std::atomic<int64_t> usual_ns_{INT64_MAX};
};

// Sums of the rows of a gradient, as TensorFlow's optimizers make them, become one operation each: row_sums.cc. Returns
// how many.
int FuseRowSums(tensorflow::Graph* graph);

}  // namespace fusewire::tf
