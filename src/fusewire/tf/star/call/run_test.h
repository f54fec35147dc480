// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// For tests of the worker's end of parts: the operation of star/call/run_op.cc, and a step of it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include <tensorflow/core/framework/cancellation.h>
#include <tensorflow/core/framework/op_kernel.h>
#include <tensorflow/core/public/version.h>
#include "fusewire/tf/bridge/threads_test.h"
#include "fusewire/tf/receive/step_test.h"

namespace fusewire::tf {

// Of one float tensor to one other.
// `kept`: values that it leaves at the same parameter server; `taken`: that an earlier part has left there.
inline std::unique_ptr<tensorflow::OpKernel> MakeRunOp(tensorflow::Device* device, const std::string& piece,
                                                       bool is_alone, int kept = 0, int taken = 0) {
  tensorflow::NodeDef node;
  node.set_name("run");
  node.set_op("_FusewireRun");
  node.add_input("arg");
  auto& attributes = *node.mutable_attr();
  for (const char* types : {"Tin", "Tout"}) attributes[types].mutable_list()->add_type(tensorflow::DT_FLOAT);
  attributes["task"].set_s(kPeerTask);
  attributes["piece"].set_s(piece);
  attributes["shown"].set_s("weights");
  attributes["fingerprint"].set_s("its fingerprint");
  attributes["holders"].mutable_list();
  if (kept > 0) attributes["holders"].mutable_list()->add_s(kPeerTask);
  attributes["kept"].set_i(kept);
  attributes["taken"].set_i(taken);
  attributes["alone"].set_b(is_alone);
  TfStatus made;
  auto kernel = tensorflow::CreateOpKernel(tensorflow::DEVICE_CPU, device, tensorflow::cpu_allocator(), node,
                                           TF_GRAPH_DEF_VERSION, &made);
  EXPECT_TRUE(made.ok()) << made;
  return kernel;
}

// shared_ptr: all operations of a step run in it.
using StepPtr = std::shared_ptr<Step>;

// One operation, from when it is made: of a step of its own, or of one with others. It lives until its end.
class RunningOp {
 public:
  RunningOp(StepTask* task, tensorflow::OpKernel* kernel, int64_t number, const tensorflow::Tensor& input,
            tensorflow::CancellationManager* cancellation = nullptr)
      : RunningOp(std::make_shared<Step>(task, number, "graph"), task, kernel, number, input, cancellation) {}
  RunningOp(StepPtr step, StepTask* task, tensorflow::OpKernel* kernel, int64_t number, const tensorflow::Tensor& input,
            tensorflow::CancellationManager* cancellation = nullptr)
      : step_(std::move(step)), input_(input), value_(&input_) {
    params_.device = task->cpu();
    params_.op_kernel = kernel;
    params_.rendezvous = &**step_;
    params_.cancellation_manager = cancellation;
    params_.step_id = number;
    params_.inputs = absl::Span<const tensorflow::TensorValue>(&value_, 1);
    params_.output_attr_array = &attributes_;
    context_ = std::make_unique<tensorflow::OpKernelContext>(&params_);
    kernel->AsAsync()->ComputeAsync(context_.get(), [this] { ends.Add(); });
  }

  TfStatus status() const { return context_->status(); }
  std::string message() const { return std::string(context_->status().message()); }
  const tensorflow::Tensor& output() { return *context_->mutable_output(0); }

  Ends ends;

 private:
  const StepPtr step_;
  tensorflow::Tensor input_;
  tensorflow::TensorValue value_;
  tensorflow::AllocatorAttributes attributes_;
  tensorflow::OpKernelContext::Params params_;
  std::unique_ptr<tensorflow::OpKernelContext> context_;
};

}  // namespace fusewire::tf
