// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A part of a graph as a list: kernels in an order in which each has its inputs, and slots for their outputs. One
// thread runs it from the first to the last, without a queue, a lock or a count of missing inputs. Branches are decided
// during the run: operations in a branch that is not taken are dead, and skipped. Only for kernels that end when they
// return, and not for loops: Part gives the rest to TensorFlow's executor.
// Home: any thread; many runs at once. Owns: its constants; not the kernels. Fails: with the first kernel's status.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <tensorflow/core/common_runtime/device.h>
#include <tensorflow/core/common_runtime/step_stats_collector.h>
#include <tensorflow/core/framework/cancellation.h>
#include <tensorflow/core/framework/op_kernel.h>
#include <tensorflow/core/graph/graph.h>
#include "fusewire/base/mutex.h"
#include "fusewire/tf/bridge/compat.h"
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
};

class Program {
 public:
  struct Place {
    tensorflow::Device* device = nullptr;
    tensorflow::FunctionLibraryRuntime* library = nullptr;
    std::function<void(std::function<void()>)> runner;
    Inventory* inventory = nullptr;  // of the task, whose marks are set; null: it keeps no snapshots
  };
  using KernelOf = std::function<tensorflow::OpKernel*(const tensorflow::Node&)>;

  // Null: the graph can't be run as a list.
  static std::unique_ptr<Program> Make(const tensorflow::Graph& graph, const Place& place, const KernelOf& kernel_of);
  ~Program();

  TfStatus Run(PartRun* run);

 private:
  // The value of a kernel's input, or of a result.
  struct Slot {
    tensorflow::Tensor tensor;
    tensorflow::Tensor* reference = nullptr;
    tensorflow::mutex* mutex = nullptr;  // of the reference
    bool is_dead = false;
    void Clear() {
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
  struct Operation {
    tensorflow::OpKernel* kernel;
    const tensorflow::NodeDef* def;
    size_t first_slot, slots;
    bool is_switch, is_merge;
    bool may_be_uninitialized;  // it sets its variable, or only asks whether that is set
    std::vector<Output> outputs;
    std::vector<size_t> before;            // operations that it is dead with; only where there are branches
    std::unique_ptr<const Writes> writes;  // null: nothing, or nobody wants to know
  };
  struct Constant {
    tensorflow::Tensor tensor;
    std::vector<size_t> slots;
  };
  // The slots of one run, and the parameters of all its kernels.
  struct Frame;

  explicit Program(Place place);
  TfStatus Execute(PartRun* run, Frame* frame);
  bool IsDead(const Operation& operation, const Frame& frame) const;
  TfStatus Compute(const Operation& operation, Frame* frame);
  TfStatus FillInputs(const Operation& operation, Frame* frame);
  TfStatus Return(PartRun* run, Frame* frame);
  void Pass(const Operation& operation, tensorflow::OpKernelContext* context, Frame* frame);
  bool Evaluate(tensorflow::OpKernel* kernel, tensorflow::Tensor* tensor);
  std::unique_ptr<Frame> TakeFrame();
  void GiveBack(std::unique_ptr<Frame> frame);

  Place place_;
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
  size_t slots_ = 0;
  std::vector<tensorflow::AllocatorAttributes> attributes_;  // of as many inputs or outputs as any kernel has
  Mutex frames_mutex_;
  std::vector<std::unique_ptr<Frame>> frames_ FUSEWIRE_GUARDED_BY(frames_mutex_);  // as many as ran at once
};

}  // namespace fusewire::tf
