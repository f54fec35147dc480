// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A rendezvous' receives over gRPC, from tasks that have no data port: one by one, or fused.
#include <utility>

#include <absl/strings/str_cat.h>
#include <tensorflow/core/common_runtime/device_mgr.h>
#include <tensorflow/core/distributed_runtime/call_options.h>
#include <tensorflow/core/distributed_runtime/request_id.h>
#include <tensorflow/core/distributed_runtime/tensor_coding.h>
#include <tensorflow/core/distributed_runtime/worker_session.h>
#include "fusewire/base/check.h"
#include "fusewire/base/mutex.h"
#include "fusewire/tf/peer/counters.h"
#include "fusewire/tf/receive/rendezvous.h"

namespace fusewire::tf {

using tensorflow::Tensor;

// One call of RecvTensor. It is registered with TensorFlow's base class from Go to its end, and aborted with the step.
class Rendezvous::GrpcCall : public tensorflow::BaseRecvTensorCall {
 public:
  // `args` are those of all its tensors.
  GrpcCall(Rendezvous* rendezvous, SidePtr side, const Args& args)
      : rendezvous_(rendezvous), side_(std::move(side)), args_(args) {
    FUSEWIRE_DCHECK(side_ != nullptr);
    FUSEWIRE_DCHECK(side_->worker() != nullptr);
    rendezvous_->Ref();  // until its end
    request_.set_step_id(rendezvous_->step_id_);
    request_.set_request_id(tensorflow::GetUniqueRequestId());
  }
  ~GrpcCall() override { rendezvous_->Unref(); }

  void Go() {
    rendezvous_->RegisterCall(this, args_);
    Start(nullptr);
  }
  void Start(std::function<void()>) override {
    // Two references: the answer, and the check for an abort that came before the call could be cancelled.
    side_->worker()->RecvTensorAsync(&options_, &request_, &response_, [this](const TfStatus& status) {
      if (!status.ok()) Fail(status);
      Leave();
    });
    if (!status().ok()) options_.StartCancel();
    Leave();
  }
  void StartAbort(const TfStatus& why) override {
    Fail(why);
    options_.StartCancel();
  }
  TfStatus status() const override {
    MutexLock lock(mutex_);
    return status_;
  }

 protected:
  // Once. After the last `done` of a step, TensorFlow may destroy all of the step's objects.
  virtual void OnEnd(const TfStatus& status) = 0;

  Rendezvous* const rendezvous_;  // holds a reference
  const SidePtr side_;            // shared_ptr: outlives the session's cache
  const Args args_;
  tensorflow::RecvTensorRequest request_;
  tensorflow::TensorResponse response_;

 private:
  void Fail(const TfStatus& why) {
    FUSEWIRE_DCHECK(!why.ok());
    MutexLock lock(mutex_);
    if (status_.ok()) status_ = why;
  }
  void Leave() {
    const int ends = ends_.fetch_sub(1, std::memory_order_acq_rel);
    FUSEWIRE_CHECK(ends > 0);
    if (ends > 1) return;
    rendezvous_->DeregisterCall(this, args_);
    OnEnd(status());
    delete this;
  }

  tensorflow::CallOptions options_;
  std::atomic<int> ends_{2};
  mutable Mutex mutex_;
  TfStatus status_ FUSEWIRE_GUARDED_BY(mutex_);
};

class Rendezvous::GrpcRecv final : public GrpcCall {
 public:
  GrpcRecv(Rendezvous* rendezvous, SidePtr side, absl::string_view key, tensorflow::Device* device, const Args& args,
           DoneCallback done)
      : GrpcCall(rendezvous, std::move(side), args), done_(std::move(done)) {
    request_.set_rendezvous_key(key.data(), key.size());
    response_.InitAlloc(device, args.alloc_attrs);
    GlobalCounters().Add(&Counters::grpc_recvs);
  }

 private:
  void OnEnd(const TfStatus& status) override {
    done_(status, Args(), args_, status.ok() ? response_.tensor() : Tensor(), response_.metadata().is_dead());
  }

  const DoneCallback done_;
};

class Rendezvous::GrpcFusedRecv final : public GrpcCall {
 public:
  GrpcFusedRecv(Rendezvous* rendezvous, SidePtr side, PeerPtr peer, tensorflow::Device* device, TogetherPtr wanted)
      : GrpcCall(rendezvous, std::move(side), wanted->args.front()),
        peer_(std::move(peer)),
        wanted_(std::move(wanted)) {
    FUSEWIRE_DCHECK(peer_ != nullptr);
    FUSEWIRE_DCHECK(wanted_->keys->size() == wanted_->args.size());
    AskFused(*wanted_->keys, &request_);
    response_.InitAlloc(device, HostForDevice());
    for (const Args& args : wanted_->args) {
      TensorPlace place;
      place.device = device;
      place.attributes = args.alloc_attrs;
      place.context = args.device_context;
      places_.push_back(place);
    }
    GlobalCounters().Add(&Counters::grpc_fused_recvs);
  }

 private:
  void OnEnd(const TfStatus& status) override {
    if (!status.ok()) {
      for (size_t i = 0, count = places_.size(); i < count; ++i) wanted_->done(i, status, Tensor(), false);
    } else if (!IsFusedAnswer(response_.tensor())) {
      TakeFirst();
    } else {
      DecodeFused(response_.tensor(), places_,
                  [this, wanted = wanted_](size_t i, const TfStatus& landed, FusedKind kind, const Tensor& tensor) {
                    if (landed.ok() && kind == FusedKind::kApart) {
                      RecvOne(rendezvous_, wanted, i);  // still within OnEnd
                    } else {
                      wanted->done(i, landed, tensor, kind == FusedKind::kDead);
                    }
                  });
    }
  }

  // The task has been restarted without the plug-in: it has answered the first key, as TensorFlow does.
  void TakeFirst() {
    peer_->CannotFuse();
    bool is_elsewhere = IsAccelerator(places_[0].device) && !places_[0].attributes.on_host();
    TfStatus status;
    if (is_elsewhere) {
      status = absl::AbortedError(
          absl::StrCat(side_->target(),
                       " was restarted without Fusewire; next: install it there, or restart the step; "
                       "see docs/problems/incarnation-mismatch.md#a-task-has-restarted"));
    }
    for (size_t i = 1, count = places_.size(); i < count; ++i) {
      if (status.ok()) {
        RecvOne(rendezvous_, wanted_, i);
      } else {
        wanted_->done(i, status, Tensor(), false);
      }
    }
    wanted_->done(0, status, response_.tensor(), response_.metadata().is_dead());
  }

  const PeerPtr peer_;  // shared_ptr: outlives the session's cache
  const TogetherPtr wanted_;
  std::vector<TensorPlace> places_;
};

void Rendezvous::StartOnGrpc(const ParsedKey& parsed, const Args& args, DoneCallback done, SidePtr side) {
  tensorflow::Device* device = nullptr;
  TfStatus found = session()->device_mgr()->LookupDevice(parsed.dst_device, &device);
  if (!found.ok() || side->worker() == nullptr) {
    if (found.ok()) found = absl::InternalError(absl::StrCat("No worker known as ", side->target()));
    done(found, Args(), args, Tensor(), false);
    return;
  }
  absl::string_view key(parsed.FullKey().data(), parsed.FullKey().size());
  (new GrpcRecv(this, std::move(side), key, device, args, std::move(done)))->Go();
}

bool Rendezvous::StartFusedOnGrpc(const TogetherPtr& wanted) {
  const ParsedKey& first = wanted->keys->front();
  Source source;
  tensorflow::Device* device = nullptr;
  // An error here is reported for each tensor on its own.
  if (!is_initialized() || wanted->keys->size() < 2) return false;
  if (!FindSource(TaskOf(first.src_device), &source).ok()) return false;
  if (source.channel != nullptr || source.ways.peer == nullptr || !source.ways.peer->Fuses(source.ways.side))
    return false;
  if (!session()->device_mgr()->LookupDevice(first.dst_device, &device).ok()) return false;
  if (!source.ways.peer->is_grpc_only()) GlobalCounters().Add(&Counters::fallback_grpc_calls);
  (new GrpcFusedRecv(this, source.ways.side, source.ways.peer, device, wanted))->Go();
  return true;
}

void Rendezvous::RecvOne(tensorflow::RendezvousInterface* rendezvous, const TogetherPtr& wanted, size_t index) {
  FUSEWIRE_DCHECK(index < wanted->keys->size());
  rendezvous->RecvAsync((*wanted->keys)[index], wanted->args[index],
                        [wanted, index](const TfStatus& status, const Args&, const Args&, const Tensor& tensor,
                                        bool is_dead) { wanted->done(index, status, tensor, is_dead); });
}

void Rendezvous::RecvTogether(tensorflow::RendezvousInterface* rendezvous, Together receives) {
  FUSEWIRE_DCHECK(receives.keys != nullptr);
  FUSEWIRE_DCHECK(receives.keys->size() == receives.args.size());
  FUSEWIRE_DCHECK(receives.done != nullptr);
  auto wanted = std::make_shared<const Together>(std::move(receives));
  auto* ours = dynamic_cast<Rendezvous*>(rendezvous);
  if (ours != nullptr && ours->StartFusedOnGrpc(wanted)) return;
  RecvGroup together;
  for (size_t i = 0, count = wanted->keys->size(); i < count; ++i) RecvOne(rendezvous, wanted, i);
}

}  // namespace fusewire::tf
