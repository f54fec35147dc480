// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The operation that N receives become: N keys, N outputs, one request.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/base/mutex.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/peer/marks.h"
#include "fusewire/tf/receive/rendezvous.h"

#include <absl/strings/str_cat.h>
#include <tensorflow/core/framework/common_shape_fns.h>
#include <tensorflow/core/framework/op.h>
#include <tensorflow/core/framework/op_kernel.h>
#include <tensorflow/core/framework/rendezvous.h>

namespace fusewire::tf {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

class FuseRecvOp final : public tensorflow::AsyncOpKernel {
 public:
  explicit FuseRecvOp(tensorflow::OpKernelConstruction* context) : AsyncOpKernel(context) {
    std::vector<std::string> texts;
    OP_REQUIRES_OK(context, context->GetAttr("keys", &texts));
    OP_REQUIRES(context, static_cast<int>(texts.size()) == context->num_outputs(),
                absl::InvalidArgumentError(absl::StrCat("a fused receive has ", texts.size(), " keys and ",
                                                        context->num_outputs(), " outputs; each has its key")));
    keys_.resize(texts.size());
    for (size_t i = 0; i < texts.size(); ++i)
      OP_REQUIRES_OK(context, tensorflow::Rendezvous::ParseKey(texts[i], &keys_[i]));
  }

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    OP_REQUIRES_ASYNC(context, context->rendezvous() != nullptr,
                      absl::InternalError("a fused receive needs the rendezvous of a step"), done);
    GlobalCounters().Add(&Counters::fused_recvs);
    auto wait =
        std::make_shared<Wait>(keys_.size());  // shared_ptr: one of many answers is the last, nobody knows which
    Rendezvous::Together receives;
    FUSEWIRE_DCHECK(!keys_.empty());
    FUSEWIRE_DCHECK(static_cast<int>(keys_.size()) == context->num_outputs());
    receives.keys = &keys_;
    for (size_t i = 0; i < keys_.size(); ++i) {
      tensorflow::Rendezvous::Args args;
      args.device_context = context->op_device_context();
      args.alloc_attrs = context->output_alloc_attr(static_cast<int>(i));
      args.cancellation_manager = context->cancellation_manager();
      receives.args.push_back(args);
    }
    receives.done = [context, wait, done = std::move(done)](size_t i, const TfStatus& status, const Tensor& tensor,
                                                            bool is_dead) {
      TfStatus end;
      {
        MutexLock lock(wait->mutex);
        if (status.ok() && !is_dead) {
          context->set_output(static_cast<int>(i), tensor);
        } else if (wait->status.ok()) {
          // Tensors that may be dead are not fused: the marks were wrong.
          wait->status = status.ok() ? absl::InternalError("a fused receive met a dead tensor") : status;
        }
        FUSEWIRE_CHECK(wait->left > 0);
        if (--wait->left > 0) return;
        end = wait->status;
      }
      if (!end.ok()) context->SetStatus(end);
      done();
    };
    Rendezvous::RecvTogether(context->rendezvous(), std::move(receives));
  }

 private:
  struct Wait {
    explicit Wait(size_t count) : left(count) {}
    Mutex mutex;
    size_t left FUSEWIRE_GUARDED_BY(mutex);
    TfStatus status FUSEWIRE_GUARDED_BY(mutex);
  };
  ParsedKeys keys_;
};

REGISTER_OP("_FuseRecv")
    .Output("tensors: T")
    .Attr("T: list(type) >= 1")
    .Attr("keys: list(string) >= 1")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(tensorflow::shape_inference::UnknownShape);
REGISTER_OP("_HostFuseRecv")
    .Output("tensors: T")
    .Attr("T: list(type) >= 1")
    .Attr("keys: list(string) >= 1")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(tensorflow::shape_inference::UnknownShape);

REGISTER_KERNEL_BUILDER(Name("_FuseRecv").Device(tensorflow::DEVICE_CPU), FuseRecvOp);
REGISTER_KERNEL_BUILDER(Name("_FuseRecv").Device(tensorflow::DEVICE_DEFAULT), FuseRecvOp);
REGISTER_KERNEL_BUILDER(Name("_HostFuseRecv").Device(tensorflow::DEVICE_CPU).HostMemory("tensors"), FuseRecvOp);
REGISTER_KERNEL_BUILDER(Name("_HostFuseRecv").Device(tensorflow::DEVICE_DEFAULT).HostMemory("tensors"), FuseRecvOp);

}  // namespace
}  // namespace fusewire::tf
