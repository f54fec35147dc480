// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/state/kernel.h"

#include <algorithm>
#include <utility>

#include <tensorflow/core/framework/node_def_util.h>
#include <tensorflow/core/framework/op.h>
#include <tensorflow/core/public/version.h>

namespace fusewire::tf {

LoneKernel::LoneKernel(tensorflow::Device* device, std::unique_ptr<tensorflow::OpKernel> kernel)
    : device_(device),
      kernel_(std::move(kernel)),
      attributes_(static_cast<size_t>(std::max(kernel_->num_inputs(), kernel_->num_outputs()))) {}

TfStatus LoneKernel::Make(tensorflow::Device* device, const tensorflow::NodeDef& node,
                          std::unique_ptr<LoneKernel>* out) {
  const tensorflow::OpDef* op = nullptr;
  TF_RETURN_IF_ERROR(tensorflow::OpRegistry::Global()->LookUpOpDef(node.op(), &op));
  tensorflow::NodeDef complete = node;
  tensorflow::AddDefaultsToNodeDef(*op, &complete);
  // shared_ptr: as kernels hold it.
  std::shared_ptr<const tensorflow::NodeProperties> properties;
  TF_RETURN_IF_ERROR(
      tensorflow::NodeProperties::CreateFromNodeDef(complete, tensorflow::OpRegistry::Global(), &properties));
  tensorflow::OpKernel* kernel = nullptr;
  TF_RETURN_IF_ERROR(tensorflow::CreateOpKernel(tensorflow::DeviceType(device->device_type()), device,
                                                device->GetAllocator(tensorflow::AllocatorAttributes()), nullptr,
                                                device->resource_manager(), properties, TF_GRAPH_DEF_VERSION, &kernel));
  out->reset(new LoneKernel(device, std::unique_ptr<tensorflow::OpKernel>(kernel)));
  return TfStatus();
}

TfStatus LoneKernel::Run(std::vector<tensorflow::Tensor> inputs) {
  std::vector<tensorflow::TensorValue> values;
  for (tensorflow::Tensor& input : inputs) values.emplace_back(&input);
  tensorflow::CancellationManager cancellation;
  tensorflow::ScopedStepContainer container(0, [this](const std::string& name) {
    device_->resource_manager()->Cleanup(name).IgnoreError();  // fails if no resource was made
  });
  tensorflow::OpKernelContext::Params params;
  params.device = device_;
  params.resource_manager = device_->resource_manager();
  params.op_kernel = kernel_.get();
  params.inputs = absl::Span<const tensorflow::TensorValue>(values.data(), values.size());
  params.input_alloc_attrs = absl::Span<const tensorflow::AllocatorAttributes>(attributes_.data(), values.size());
  params.output_attr_array = attributes_.data();
  params.frame_iter = tensorflow::FrameAndIter(0, 0);
  params.step_container = &container;
  params.cancellation_manager = &cancellation;
  tensorflow::OpKernelContext context(&params);
  device_->Compute(kernel_.get(), &context);
  TF_RETURN_IF_ERROR(context.status());
  tensors_.clear();
  for (int i = 0; i < context.num_outputs(); ++i) {
    tensorflow::TensorValue value = context.release_output(i);
    tensors_.emplace_back();
    if (value.is_ref()) {
      if (i == 0) reference_ = value;
    } else if (value.tensor != nullptr) {
      tensors_.back() = std::move(*value.tensor);
      delete value.tensor;
    }
  }
  return TfStatus();
}

}  // namespace fusewire::tf
