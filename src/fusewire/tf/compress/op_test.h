// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// For tests: kernels of operations, run one by one.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tensorflow/core/common_runtime/device_factory.h>
#include <tensorflow/core/framework/node_def_builder.h>
#include <tensorflow/core/framework/op_kernel.h>
#include <tensorflow/core/framework/tensor.h>
#include <tensorflow/core/public/session_options.h>
#include "fusewire/tf/bridge/compat.h"

#include <gtest/gtest.h>

namespace fusewire::tf {

class OpTest : public testing::Test {
 protected:
  using Tensors = std::vector<tensorflow::Tensor>;

  // For inputs of these types.
  std::unique_ptr<tensorflow::OpKernel> Make(const std::string& op, const Tensors& inputs,
                                             const std::vector<std::pair<std::string, int>>& attributes = {}) {
    tensorflow::NodeDefBuilder builder("node", op);
    for (const auto& input : inputs) builder.Input("input", 0, input.dtype());
    for (const auto& one : attributes) builder.Attr(one.first, one.second);
    tensorflow::NodeDef def;
    TfStatus status = builder.Finalize(&def);
    EXPECT_TRUE(status.ok()) << status;
    auto kernel = tensorflow::CreateOpKernel(tensorflow::DEVICE_CPU, device_.get(),
                                             device_->GetAllocator(tensorflow::AllocatorAttributes()), def,
                                             TF_GRAPH_DEF_VERSION, &status);
    EXPECT_TRUE(status.ok()) << status;
    return kernel;
  }
  TfStatus Run(tensorflow::OpKernel* kernel, Tensors inputs, Tensors* outputs) {
    tensorflow::OpKernelContext::Params params;
    params.device = device_.get();
    params.op_kernel = kernel;
    std::vector<tensorflow::TensorValue> values;
    for (auto& input : inputs) values.emplace_back(&input);
    params.inputs = values;
    const std::vector<tensorflow::AllocatorAttributes> attributes(static_cast<size_t>(kernel->num_outputs()));
    params.output_attr_array = attributes.data();
    tensorflow::OpKernelContext context(&params);
    kernel->Compute(&context);
    TF_RETURN_IF_ERROR(context.status());
    outputs->clear();
    for (int i = 0; i < kernel->num_outputs(); ++i) outputs->push_back(*context.mutable_output(i));
    return TfStatus();
  }

 private:
  const std::unique_ptr<tensorflow::Device> device_ =
      tensorflow::DeviceFactory::NewDevice("CPU", tensorflow::SessionOptions(), "/job:a/replica:0/task:0");
};

}  // namespace fusewire::tf
