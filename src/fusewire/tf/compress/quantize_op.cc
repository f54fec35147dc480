// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The operations at both ends of an edge whose tensor travels in 8 bits: compress_pass.cc puts them there.
#include <cstdint>
#include <vector>

#include "fusewire/base/mutex.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/compress/quantize.h"

#include <absl/strings/str_cat.h>
#include <tensorflow/core/framework/op.h>
#include <tensorflow/core/framework/op_kernel.h>
#include <tensorflow/core/framework/shape_inference.h>

namespace fusewire::tf {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

// The shape of a tensor of rows whose last dimension differs by `more`.
TfStatus RowShape(InferenceContext* context, int64_t more) {
  ShapeHandle shape;
  TF_RETURN_IF_ERROR(context->WithRankAtLeast(context->input(0), 1, &shape));
  DimensionHandle last;
  TF_RETURN_IF_ERROR(more > 0 ? context->Add(context->Dim(shape, -1), more, &last)
                              : context->Subtract(context->Dim(shape, -1), -more, &last));
  TF_RETURN_IF_ERROR(context->ReplaceDim(shape, -1, last, &shape));
  context->set_output(0, shape);
  return TfStatus();
}

// The rows of a tensor, and of what it becomes.
struct RowsOf {
  RowsOf(const Tensor& from, int64_t more) {
    if (from.dims() == 0 || from.dim_size(from.dims() - 1) + more < 1) return;
    is_valid = true;
    shape = from.shape();
    const int64_t last = from.dim_size(from.dims() - 1);
    shape.set_dim(from.dims() - 1, last + more);
    rows = from.NumElements() / last;
    in = static_cast<size_t>(last);
    out = static_cast<size_t>(last + more);
  }
  TfStatus Refused(const Tensor& from, const char* what) const {
    return absl::InvalidArgumentError(absl::StrCat("fusewire: a tensor of shape ", from.shape().DebugString(),
                                                   " is no ", what, "; both ends need the same version of fusewire"));
  }

  bool is_valid = false;
  TensorShape shape;
  int64_t rows = 0;
  size_t in = 0, out = 0;  // length of a row
};

class QuantizeOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;
  void Compute(OpKernelContext* context) override {
    const Tensor& from = context->input(0);
    const RowsOf rows(from, kScaleBytes);
    OP_REQUIRES(context, rows.is_valid, rows.Refused(from, "tensor of rows"));
    Tensor* to = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, rows.shape, &to));
    const float* row = from.flat<float>().data();
    int8_t* out = to->flat<int8_t>().data();
    for (int64_t i = 0; i < rows.rows; ++i, row += rows.in, out += rows.out) QuantizeRow(row, rows.in, out);
  }
};

// Gradients: what rounding takes from a row is added to its next one. The kernel lives as long as its session.
class QuantizeGradientsOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;
  void Compute(OpKernelContext* context) override {
    const Tensor& from = context->input(0);
    const Tensor& ids = context->input(1);
    const RowsOf rows(from, kScaleBytes);
    OP_REQUIRES(context, rows.is_valid, rows.Refused(from, "tensor of rows"));
    const bool has_ids = ids.NumElements() > 0;
    OP_REQUIRES(context, !has_ids || ids.NumElements() == rows.rows,
                absl::InvalidArgumentError(absl::StrCat("fusewire: ", ids.NumElements(), " ids for ", rows.rows,
                                                        " rows of gradients; leave out compression=\"int8\"")));
    Tensor* to = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, rows.shape, &to));
    const float* row = from.flat<float>().data();
    int8_t* out = to->flat<int8_t>().data();
    std::vector<float> scratch(rows.in);
    MutexLock lock(mutex_);
    for (int64_t i = 0; i < rows.rows; ++i, row += rows.in, out += rows.out)
      residuals_.Quantize(has_ids ? IdAt(ids, i) : i, row, rows.in, scratch.data(), out);
  }

 private:
  static int64_t IdAt(const Tensor& ids, int64_t i) {
    return ids.dtype() == tensorflow::DT_INT32 ? ids.flat<int32_t>()(i) : ids.flat<int64_t>()(i);
  }

  Mutex mutex_;
  Residuals residuals_ FUSEWIRE_GUARDED_BY(mutex_);
};

class RestoreOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;
  void Compute(OpKernelContext* context) override {
    const Tensor& from = context->input(0);
    const RowsOf rows(from, -static_cast<int64_t>(kScaleBytes));
    OP_REQUIRES(context, rows.is_valid, rows.Refused(from, "tensor of rows with their scales"));
    Tensor* to = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, rows.shape, &to));
    const int8_t* row = from.flat<int8_t>().data();
    float* out = to->flat<float>().data();
    for (int64_t i = 0; i < rows.rows; ++i, row += rows.in, out += rows.out) RestoreRow(row, rows.out, out);
  }
};

REGISTER_OP("FusewireQuantize")
    .Input("rows: float")
    .Output("quantized: int8")
    .SetShapeFn([](InferenceContext* context) { return RowShape(context, kScaleBytes); });
// `ids` of the rows; none: a row's place is its id. Stateful: its kernel is kept for the next step.
REGISTER_OP("FusewireQuantizeGradients")
    .Input("rows: float")
    .Input("ids: Tids")
    .Output("quantized: int8")
    .Attr("Tids: {int32, int64}")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* context) { return RowShape(context, kScaleBytes); });
REGISTER_OP("FusewireRestore").Input("quantized: int8").Output("rows: float").SetShapeFn([](InferenceContext* context) {
  return RowShape(context, -static_cast<int64_t>(kScaleBytes));
});
REGISTER_KERNEL_BUILDER(Name("FusewireQuantize").Device(tensorflow::DEVICE_CPU), QuantizeOp);
REGISTER_KERNEL_BUILDER(Name("FusewireQuantizeGradients").Device(tensorflow::DEVICE_CPU), QuantizeGradientsOp);
REGISTER_KERNEL_BUILDER(Name("FusewireRestore").Device(tensorflow::DEVICE_CPU), RestoreOp);

}  // namespace
}  // namespace fusewire::tf
