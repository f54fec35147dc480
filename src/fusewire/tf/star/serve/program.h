// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A graph as a list: kernels in an order in which each has its inputs, and slots for their outputs. One thread runs it
// from the first to the last, without a queue or a count of missing inputs. Branches are decided during the run:
// operations in a branch that is not taken are dead, and skipped. Not for loops: they are left to TensorFlow's
// executor. Asynchronous kernels begin as early as they can; kernels that wait for one are passed over until it ends.
// If nothing else is left to do, the thread waits, and drives the loop that reads the answers; after a while it leaves
// the run to the pool, which goes on when the next kernel ends. Calls that it holds until then are started before it
// computes on where earlier runs have shown that this takes long.
// Home: any thread; many runs at once. Owns: its constants; not the kernels. Fails: with the first kernel's status,
// once all kernels that have begun have ended.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tensorflow/core/common_runtime/device.h>
#include <tensorflow/core/common_runtime/executor.h>
#include <tensorflow/core/common_runtime/step_stats_collector.h>
#include <tensorflow/core/framework/cancellation.h>
#include <tensorflow/core/framework/op_kernel.h>
#include <tensorflow/core/graph/graph.h>
#include "fusewire/base/mutex.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/bridge/tensor_pool.h"
#include "fusewire/tf/star/serve/arrivals.h"
#include "fusewire/tf/star/serve/writes.h"

namespace fusewire::tf {

// The data of one run.
struct PartRun {
  int64_t step = 0;
  std::vector<tensorflow::Tensor> args;  // taken by the run
  std::vector<tensorflow::Tensor> rets;
  tensorflow::CancellationManager cancellation;
  std::unique_ptr<tensorflow::StepStatsCollector> collector;  // of a traced run
  tensorflow::StepStats stats;
  // Of a worker's own step; it lives as long as the run. Null: the run of a part, which shares nothing with its step.
  const tensorflow::Executor::Args* outer = nullptr;
  // The loop that reads the answers to the step's calls; it may be null, or return null.
  std::function<reactor::Reactor*()> loop;
};

class Program {
 public:
  struct Place {
    tensorflow::Device* device = nullptr;
    tensorflow::FunctionLibraryRuntime* library = nullptr;
    std::function<void(std::function<void()>)> runner;
    Inventory* inventory = nullptr;  // of the task, whose marks are set; null: it keeps no snapshots
    // The graph is a worker's own: it may send, receive and wait.
    bool is_own = false;
  };
  using KernelOf = std::function<tensorflow::OpKernel*(const tensorflow::Node&)>;

  // Null: the graph can't be run as a list.
  static std::unique_ptr<Program> Make(const tensorflow::Graph& graph, const Place& place, const KernelOf& kernel_of);
  ~Program();

  // The device of its kernels: the place's, with the pool's memory.
  tensorflow::Device* device() const { return place_.device; }

  // Calls `done` once, as the last thing; on this thread, unless it was left to another one. `run` lives until then.
  void Run(PartRun* run, std::function<void(const TfStatus&)> done);

 private:
  // The value of a kernel's input, or of a result.
  struct Slot {
    tensorflow::Tensor tensor;
    tensorflow::Tensor* reference = nullptr;
    tensorflow::mutex* mutex = nullptr;  // of the reference
    bool is_dead = false;
    bool stays = false;  // a constant, for all runs
    void Clear() {
      if (stays) return;
      reference = nullptr;
      is_dead = false;
      tensor = tensorflow::Tensor();
    }
    // For a variable: reads it now. False: it has no value yet.
    bool Dereference();
    bool IsInitialized() const;
  };
  struct Output {
    int number;
    std::vector<size_t> slots;
  };
  // kPooled: it may block, and runs on the pool.
  enum class Kind { kInline, kAsync, kPooled };
  struct Operation {
    tensorflow::OpKernel* kernel;
    const tensorflow::NodeDef* def;
    size_t first_slot, slots;
    bool is_merge, is_send;
    bool may_lack_output;  // a Switch, or a receive of a value that is dead
    bool takes_references;
    bool may_be_uninitialized;  // it sets its variable, or only asks whether that is set
    Kind kind;
    size_t waiting;  // its number among those that are waited for
    std::vector<Output> outputs;
    std::vector<size_t> before;            // operations that it is dead with; only where there are branches
    std::vector<size_t> after;             // operations that must have ended; only where some are waited for
    std::unique_ptr<const Writes> writes;  // null: nothing, or no snapshots are kept
  };
  struct Constant {
    tensorflow::Tensor tensor;
    std::vector<size_t> slots;
  };
  // The slots of one run, and the parameters of all its kernels.
  struct Frame;

  explicit Program(Place place);
  bool AddEnd(const tensorflow::Node& node, size_t first_slot, std::vector<size_t> slots);
  Kind KindOf(const tensorflow::Node& node, tensorflow::OpKernel* kernel) const;
  void Begin(PartRun* run, Frame* frame);
  void GoOn(Frame* frame, int64_t until_ns);
  void Sweep(Frame* frame);
  bool IsReady(const Operation& operation, const Frame& frame) const;
  TfStatus Do(size_t index, Frame* frame);
  void Arrive(Frame* frame);
  void Ended(size_t index, Frame* frame);
  void Fail(const TfStatus& status, Frame* frame);
  void End(Frame* frame);
  bool IsDead(const Operation& operation, const Frame& frame) const;
  TfStatus Compute(const Operation& operation, Frame* frame);
  TfStatus ComputeLater(size_t index, Frame* frame);
  TfStatus FillInputs(const Operation& operation, Frame* frame);
  TfStatus Finish(const Operation& operation, tensorflow::OpKernelContext* context, Frame* frame);
  TfStatus Return(PartRun* run, Frame* frame);
  void Pass(const Operation& operation, tensorflow::OpKernelContext* context, Frame* frame);
  bool Evaluate(tensorflow::OpKernel* kernel, tensorflow::Tensor* tensor);
  std::unique_ptr<Frame> TakeFrame();
  void GiveBack(std::unique_ptr<Frame> frame);

  Place place_;
  std::unique_ptr<PooledDevice> pooled_;  // null: it is not a CPU
  std::vector<Operation> operations_;
  std::vector<Constant> constants_;
  std::vector<std::vector<size_t>> args_;  // slots of each argument
  struct Result {
    size_t slot = 0;
    tensorflow::DataType type = tensorflow::DT_INVALID;
    std::string name;  // of the returned value
  };
  std::vector<Result> rets_;
  bool has_branches_ = false;
  size_t slots_ = 0, waiting_ = 0;
  std::optional<HoldTimes> hold_times_;                      // once all operations are there
  std::vector<tensorflow::AllocatorAttributes> attributes_;  // of as many inputs or outputs as any kernel has
  Mutex frames_mutex_;
  std::vector<std::unique_ptr<Frame>> frames_ FUSEWIRE_GUARDED_BY(frames_mutex_);  // as many as ran at once
};

}  // namespace fusewire::tf
