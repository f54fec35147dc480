// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The operations that compress_pass.cc puts into graphs: those at both ends of an edge whose tensor travels in 8 bits,
// and those before and behind a lookup whose rows are used again, on the worker.
//   ids -> FusewireFreshIds -> missing -> lookup -> rows -> FusewireAllRows -> a row for each of ids
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/mutex.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/compress/quantize.h"
#include "fusewire/tf/compress/row_cache.h"

#include <absl/strings/str_cat.h>
#include <tensorflow/core/framework/op.h>
#include <tensorflow/core/framework/op_kernel.h>
#include <tensorflow/core/framework/resource_mgr.h>
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

// Makes each row of the first input, by `make(place, row, its length, what it becomes)`, one of the first output whose
// length differs by `more`. `ids` of the rows; null or empty: a row's place is its id.
template <class In, class Out, class Make>
TfStatus MakeRows(OpKernelContext* context, int64_t more, const char* what, const Tensor* ids, const Make& make) {
  const Tensor& from = context->input(0);
  const int64_t length = from.dims() == 0 ? 0 : from.dim_size(from.dims() - 1);
  if (length < 1 || length + more < 1) {
    return absl::InvalidArgumentError(absl::StrCat("fusewire: a tensor of shape ", from.shape().DebugString(),
                                                   " is no ", what, "; both ends need the same version of fusewire"));
  }
  const int64_t rows = from.NumElements() / length;
  if (ids != nullptr && ids->NumElements() > 0 && ids->NumElements() != rows) {
    return absl::InvalidArgumentError(absl::StrCat("fusewire: ", ids->NumElements(), " ids for ", rows,
                                                   " rows of gradients; leave out compression=\"int8\""));
  }
  TensorShape shape = from.shape();
  shape.set_dim(from.dims() - 1, length + more);
  Tensor* to = nullptr;
  TF_RETURN_IF_ERROR(context->allocate_output(0, shape, &to));
  const In* row = from.flat<In>().data();
  Out* out = to->flat<Out>().data();
  for (int64_t i = 0; i < rows; ++i, row += length, out += length + more)
    make(i, row, static_cast<size_t>(length), out);
  return TfStatus();
}

class QuantizeOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;
  void Compute(OpKernelContext* context) override {
    const auto make = [](int64_t, const float* row, size_t length, int8_t* out) { QuantizeRow(row, length, out); };
    OP_REQUIRES_OK(context, (MakeRows<float, int8_t>(context, kScaleBytes, "tensor of rows", nullptr, make)));
  }
};

// Gradients: what rounding takes from a row is added to its next one. The kernel lives as long as its session.
class QuantizeGradientsOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;
  void Compute(OpKernelContext* context) override {
    const Tensor& ids = context->input(1);
    const bool has_ids = ids.NumElements() > 0;
    std::vector<float> scratch;
    MutexLock lock(mutex_);
    Residuals* const residuals = &residuals_;  // the lock is held as long as rows are made
    const auto make = [&](int64_t i, const float* row, size_t length, int8_t* out) {
      scratch.resize(length);
      residuals->Quantize(has_ids ? IdAt(ids, i) : i, row, length, scratch.data(), out);
    };
    OP_REQUIRES_OK(context, (MakeRows<float, int8_t>(context, kScaleBytes, "tensor of rows", &ids, make)));
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
    const auto make = [](int64_t, const int8_t* row, size_t length, float* out) {
      RestoreRow(row, length - kScaleBytes, out);
    };
    OP_REQUIRES_OK(context, (MakeRows<int8_t, float>(context, -static_cast<int64_t>(kScaleBytes),
                                                     "tensor of rows with their scales", nullptr, make)));
  }
};

// What a step has found, on its way from one operation to the other.
class StepRows final : public tensorflow::ResourceBase {
 public:
  // shared_ptr: a step may outlive its session's kernel.
  StepRows(std::shared_ptr<RowCache> its_cache, const std::vector<int64_t>& ids)
      : cache(std::move(its_cache)), found(cache->Begin(ids)) {}
  std::string DebugString() const override { return "rows that a lookup uses again"; }

  // shared_ptr: as above.
  const std::shared_ptr<RowCache> cache;
  const RowCache::Found found;
};

// The kernel lives as long as its session.
template <class Id>
class FreshIdsOp : public tensorflow::OpKernel {
 public:
  explicit FreshIdsOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {
    int64_t steps_max = 0;
    OP_REQUIRES_OK(construction, construction->GetAttr("steps_max", &steps_max));
    cache_ = std::make_shared<RowCache>(steps_max);
  }
  void Compute(OpKernelContext* context) override {
    const auto ids = context->input(0).flat<Id>();
    std::vector<int64_t> wanted(static_cast<size_t>(ids.size()));
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = static_cast<int64_t>(ids(static_cast<int64_t>(i)));
    auto* step = new StepRows(cache_, wanted);
    Tensor handle(tensorflow::DT_RESOURCE, TensorShape());
    handle.scalar<tensorflow::ResourceHandle>()() =
        tensorflow::ResourceHandle::MakeRefCountingHandle(step, context->device()->name());
    context->set_output(1, handle);
    const std::vector<int64_t>& missing = step->found.missing;
    Tensor* out = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, TensorShape({static_cast<int64_t>(missing.size())}), &out));
    for (size_t i = 0; i < missing.size(); ++i) out->flat<Id>()(static_cast<int64_t>(i)) = static_cast<Id>(missing[i]);
  }

 private:
  // shared_ptr: as in StepRows.
  std::shared_ptr<RowCache> cache_;
};

class AllRowsOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;
  void Compute(OpKernelContext* context) override {
    const tensorflow::ResourceHandle& handle = context->input(0).scalar<tensorflow::ResourceHandle>()();
    const Tensor& pulled = context->input(1);
    auto resource = handle.GetResource<StepRows>();
    OP_REQUIRES_OK(context, resource.status());
    const RowCache::Found& found = (*resource)->found;
    const auto rows = static_cast<int64_t>(found.missing.size());
    OP_REQUIRES(context, pulled.dims() > 0 && pulled.dim_size(0) == rows,
                absl::InvalidArgumentError(absl::StrCat("fusewire: a lookup of ", rows, " ids gave a tensor of shape ",
                                                        pulled.shape().DebugString(), "; leave out staleness")));
    TensorShape shape = pulled.shape();
    shape.set_dim(0, 1);
    const auto length = static_cast<size_t>(shape.num_elements());
    OP_REQUIRES(context, found.rows.empty() || found.row_length == length,
                absl::InvalidArgumentError(absl::StrCat("fusewire: the rows of a table have become longer or shorter: ",
                                                        found.row_length, " and ", length, "; leave out staleness")));
    shape.set_dim(0, static_cast<int64_t>(found.places.size()));
    Tensor* all = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, shape, &all));
    const float* fresh = pulled.flat<float>().data();
    float* out = all->flat<float>().data();
    for (const int32_t place : found.places) {
      const float* row = place >= 0 ? fresh + static_cast<size_t>(place) * length
                                    : found.rows.data() + static_cast<size_t>(-1 - place) * length;
      out = std::copy_n(row, length, out);
    }
    (*resource)->cache->Keep(found.step, found.missing, fresh, length);
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
// Stateful: its kernel is kept for the next step.
REGISTER_OP("FusewireFreshIds")
    .Input("ids: Tids")
    .Output("missing: Tids")
    .Output("step: resource")
    .Attr("Tids: {int32, int64}")
    .Attr("steps_max: int >= 1")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* context) {
      context->set_output(0, context->Vector(InferenceContext::kUnknownDim));
      context->set_output(1, context->Scalar());
      return TfStatus();
    });
REGISTER_OP("FusewireAllRows")
    .Input("step: resource")
    .Input("rows: float")
    .Output("all: float")
    .SetShapeFn([](InferenceContext* context) {
      ShapeHandle rows;
      TF_RETURN_IF_ERROR(context->WithRankAtLeast(context->input(1), 1, &rows));
      TF_RETURN_IF_ERROR(context->ReplaceDim(rows, 0, context->UnknownDim(), &rows));
      context->set_output(0, rows);
      return TfStatus();
    });
REGISTER_KERNEL_BUILDER(Name("FusewireQuantize").Device(tensorflow::DEVICE_CPU), QuantizeOp);
REGISTER_KERNEL_BUILDER(Name("FusewireQuantizeGradients").Device(tensorflow::DEVICE_CPU), QuantizeGradientsOp);
REGISTER_KERNEL_BUILDER(Name("FusewireRestore").Device(tensorflow::DEVICE_CPU), RestoreOp);
REGISTER_KERNEL_BUILDER(Name("FusewireFreshIds").Device(tensorflow::DEVICE_CPU).TypeConstraint<int32_t>("Tids"),
                        FreshIdsOp<int32_t>);
REGISTER_KERNEL_BUILDER(Name("FusewireFreshIds").Device(tensorflow::DEVICE_CPU).TypeConstraint<int64_t>("Tids"),
                        FreshIdsOp<int64_t>);
REGISTER_KERNEL_BUILDER(Name("FusewireAllRows").Device(tensorflow::DEVICE_CPU), AllRowsOp);

}  // namespace
}  // namespace fusewire::tf
