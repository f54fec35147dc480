// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One run of one kernel outside of any graph: how variables without a header of their own, and tables, are reached.
// Home: any thread. Owns: the kernel. Fails: with TensorFlow's reason.
#pragma once

#include <memory>
#include <vector>

#include <tensorflow/core/common_runtime/device.h>
#include <tensorflow/core/framework/node_def.pb.h>
#include <tensorflow/core/framework/op_kernel.h>
#include <tensorflow/core/framework/tensor.h>
#include "fusewire/tf/bridge/compat.h"

namespace fusewire::tf {

class LoneKernel {
 public:
  static TfStatus Make(tensorflow::Device* device, const tensorflow::NodeDef& node, std::unique_ptr<LoneKernel>* out);

  TfStatus Run(std::vector<tensorflow::Tensor> inputs);
  // Of the last run.
  size_t outputs() const { return tensors_.size(); }
  tensorflow::Tensor& output(size_t index) { return tensors_[index]; }
  // Its first output, if that is a reference.
  const tensorflow::TensorValue& reference() const { return reference_; }

 private:
  LoneKernel(tensorflow::Device* device, std::unique_ptr<tensorflow::OpKernel> kernel);

  tensorflow::Device* const device_;
  const std::unique_ptr<tensorflow::OpKernel> kernel_;
  const std::vector<tensorflow::AllocatorAttributes> attributes_;
  std::vector<tensorflow::Tensor> tensors_;
  tensorflow::TensorValue reference_;
};

}  // namespace fusewire::tf
