// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The operations before and behind a lookup whose rows are used again: compress_pass.cc puts them there, on the worker.
//   ids -> FusewireFreshIds -> missing -> lookup -> rows -> FusewireAllRows -> a row for each of ids
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/tf/bridge/compat.h"
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
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

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
REGISTER_KERNEL_BUILDER(Name("FusewireFreshIds").Device(tensorflow::DEVICE_CPU).TypeConstraint<int32_t>("Tids"),
                        FreshIdsOp<int32_t>);
REGISTER_KERNEL_BUILDER(Name("FusewireFreshIds").Device(tensorflow::DEVICE_CPU).TypeConstraint<int64_t>("Tids"),
                        FreshIdsOp<int64_t>);
REGISTER_KERNEL_BUILDER(Name("FusewireAllRows").Device(tensorflow::DEVICE_CPU), AllRowsOp);

}  // namespace
}  // namespace fusewire::tf
