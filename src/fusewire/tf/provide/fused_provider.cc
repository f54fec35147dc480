// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/provide/fused_provider.h"

#include <utility>

#include <tensorflow/core/distributed_runtime/rendezvous_mgr_interface.h>
#include <tensorflow/core/platform/logging.h>
#include "fusewire/base/check.h"

namespace fusewire::tf {

using tensorflow::Tensor;

void FusedProvider::Start(const Provider::Source& source, tensorflow::CallOptions* options, int64_t step,
                          ParsedKeys keys, Done done) {
  (new FusedProvider(source, options, step, std::move(keys), std::move(done)))->Begin();
}

FusedProvider::FusedProvider(const Provider::Source& source, tensorflow::CallOptions* options, int64_t step,
                             ParsedKeys keys, Done done)
    : source_(source),
      options_(options),
      step_(step),
      keys_(std::move(keys)),
      done_(std::move(done)),
      left_(keys_.size() + 1),
      items_(keys_.size()) {
  FUSEWIRE_DCHECK(options_ != nullptr);
  FUSEWIRE_DCHECK(done_ != nullptr);
}

void FusedProvider::Begin() {
  options_->SetCancelCallback([abort_step = source_.abort_step, step = step_] {
    LOG(WARNING) << "a fused RecvTensor was cancelled for step " << step;
    abort_step(step);
  });
  for (size_t i = 0; i < keys_.size(); ++i) {
    FetchToHost(source_, step_, keys_[i], [this, i](const TfStatus& status, const Tensor& tensor, bool is_dead) {
      Put(i, status, tensor, is_dead);
      Leave();
    });
  }
  Leave();
}

void FusedProvider::Put(size_t index, const TfStatus& status, const Tensor& tensor, bool is_dead) {
  {
    MutexLock lock(mutex_);
    if (has_failed_) return;
    FUSEWIRE_DCHECK(index < items_.size());
    if (status.ok()) {
      items_[index].kind = is_dead ? FusedKind::kDead : FusedKind::kValue;
      items_[index].tensor = tensor;
      return;
    }
    has_failed_ = true;
  }
  End(status, Tensor());  // at once: the others may never come
}

// `options_` may be destroyed after this.
void FusedProvider::End(const TfStatus& status, const Tensor& answer) {
  FUSEWIRE_CHECK(done_ != nullptr);  // it ends once
  options_->ClearCancelCallback();
  Done done = std::move(done_);
  done(status, answer);
}

// A tensor that does not fit is requested again, like one that has not been requested yet.
TfStatus FusedProvider::GiveBack(const std::vector<FusedItem>& items) {
  FUSEWIRE_DCHECK(items.size() == keys_.size());
  TfStatus status;
  for (size_t i = 0; i < items.size() && status.ok(); ++i) {
    if (items[i].kind != FusedKind::kApart) continue;
    tensorflow::Rendezvous::Args args;
    args.alloc_attrs.set_on_host(true);
    status = source_.env->rendezvous_mgr->Find(step_)->Send(keys_[i], args, items[i].tensor, false);
  }
  return status;
}

void FusedProvider::Leave() {
  const size_t left = left_.fetch_sub(1, std::memory_order_acq_rel);
  FUSEWIRE_CHECK(left > 0);
  if (left > 1) return;
  EndWithAll();
  delete this;
}

void FusedProvider::EndWithAll() {
  std::vector<FusedItem> items;
  {
    MutexLock lock(mutex_);
    if (has_failed_) return;
    items.swap(items_);
  }
  Tensor answer;
  TfStatus status = EncodeFused(&items, kFusedBytesMax, &answer);
  if (status.ok()) status = GiveBack(items);
  End(status, answer);
}

}  // namespace fusewire::tf
