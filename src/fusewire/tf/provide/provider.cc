// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/provide/provider.h"

#include <memory>
#include <set>
#include <utility>

#include <tensorflow/core/common_runtime/copy_tensor.h>
#include <tensorflow/core/common_runtime/device_mgr.h>
#include <tensorflow/core/distributed_runtime/rendezvous_mgr_interface.h>
#include <tensorflow/core/platform/logging.h>
#include "fusewire/base/check.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/tf/bridge/names.h"
#include "fusewire/tf/bridge/status.h"
#include "fusewire/tf/bridge/tensor.h"
#include "fusewire/tf/heads/calls.h"
#include "fusewire/tf/peer/marks.h"
#include "fusewire/tf/profile/profiler.h"

namespace fusewire::tf {

using tensorflow::Tensor;

namespace {

// The most in one message: a longer one would only delay its first tensors.
constexpr size_t kPartHeadBytesMax = 256 * 1024;
constexpr size_t kPartSegmentsMax = 1024;
constexpr uint64_t kPartBodyBytesMax = 512 * 1024;

}  // namespace

void FetchToHost(const Provider::Source& source, int64_t step, const tensorflow::Rendezvous::ParsedKey& key,
                 Fetched fetched) {
  tensorflow::Device* device = nullptr;
  TfStatus found = source.find(key, &device);
  if (!found.ok()) return fetched(found, Tensor(), false);
  source.env->rendezvous_mgr->RecvLocalAsync(
      step, key,
      [fetched = std::move(fetched), device = IsAccelerator(device) ? device : nullptr](
          const TfStatus& status, const tensorflow::Rendezvous::Args& send_args, const tensorflow::Rendezvous::Args&,
          const Tensor& tensor, bool is_dead) {
        if (!status.ok() || is_dead || device == nullptr || send_args.alloc_attrs.on_host())
          return fetched(status, tensor, is_dead);
        // Through host memory that the device can access.
        tensorflow::Allocator* allocator = device->GetAllocator(HostForDevice());
        // shared_ptr: the copy ends on the device's own thread.
        auto from = std::make_shared<Tensor>(tensor), copy = std::make_shared<Tensor>();
        tensorflow::CopyDeviceToHost(from.get(), allocator, allocator, "fusewire", device, copy.get(),
                                     send_args.device_context,
                                     [fetched, from, copy](const TfStatus& copied) { fetched(copied, *copy, false); });
      });
}

void Provider::Start(const Source& source, std::vector<Want> wants, rpc::Reply reply) {
  if (wants.empty()) return reply.Send(Status::Ok());
  (new Provider(source, std::move(wants), std::move(reply)))->Begin();
}

Provider::Provider(const Source& source, std::vector<Want> wants, rpc::Reply reply)
    : source_(source),
      wants_(std::move(wants)),
      reply_(std::move(reply)),
      home_(reply_.home()),
      unsent_(wants_.size()),
      sent_(wants_.size(), false) {
  FUSEWIRE_DCHECK(!wants_.empty());
}

void Provider::Begin() {
  FUSEWIRE_AT_HOME(home_);
  TraceMe trace([this] { return TraceMeEncode("fusewire request", {{"tensors", wants_.size()}}); }, kTraceLevel);
  reply_.OnUnwanted([this](rpc::Unwanted) { OnUnwanted(); });
  BeginEvents();
  // One reference for this call, and one for each tensor that is found later.
  refs_.store(1 + static_cast<int>(wants_.size()), std::memory_order_relaxed);
  for (size_t i = 0; i < wants_.size(); ++i) Find(i);
  size_t unsent = unsent_;
  Deliver();  // sends the tensors that were ready
  GlobalCounters().Add(&Counters::asked, unsent);
  GlobalCounters().Add(&Counters::asked_late, unsent - unsent_);
  Unref();
}

void Provider::BeginEvents() {
  const int64_t now_ns = observe::EventNowNs();
  if (now_ns == 0) return;
  events_ = std::vector<observe::Event>(wants_.size());
  for (size_t i = 0; i < wants_.size(); ++i) {
    const Want& want = wants_[i];
    events_[i].Begin(observe::Kind::kProvide, want.mark.tag, want.step, FlowOf(want.mark, want.step), now_ns);
  }
}

void Provider::Find(size_t index) {
  FUSEWIRE_DCHECK(wants_[index].key != nullptr);
  FetchToHost(source_, wants_[index].step, *wants_[index].key,
              [this, index](const TfStatus& status, const Tensor& tensor, bool is_dead) {
                Put(Ready{index, status, tensor, is_dead});
              });
}

void Provider::Put(Ready ready) {
  FUSEWIRE_DCHECK(ready.index < wants_.size());
  if (!events_.empty()) events_[ready.index].Arrive();
  bool post;
  {
    MutexLock lock(mutex_);
    ready_.push_back(std::move(ready));
    post = !posted_;
    posted_ = true;
  }
  // Deliver drops the reference of each tensor.
  if (post) home_.Post(static_cast<Mail*>(this));
}

void Provider::Deliver() {
  FUSEWIRE_AT_HOME(home_);
  std::vector<Ready> ready;
  {
    MutexLock lock(mutex_);
    ready.swap(ready_);
    posted_ = false;
  }
  size_t count = ready.size();
  if (count > 0) Send(std::move(ready));
  for (size_t i = 0; i < count; ++i) Unref();
}

void Provider::Append(const Ready& ready) {
  AppendVarint(&head_, ready.index);
  size_t head_bytes = head_.size(), segments = body_.size();
  TfStatus status = ready.status;
  if (status.ok() && ready.is_dead) {
    head_.push_back(static_cast<char>(kDead));
    return;
  }
  if (status.ok()) {
    head_.push_back(static_cast<char>(kValue));
    status = AppendTensor(ready.tensor, &head_, &body_);
    if (status.ok()) return;
    head_.resize(head_bytes);
    body_.resize(segments);
  }
  head_.push_back(static_cast<char>(kError));
  AppendTfStatus(status, &head_);
}

void Provider::Send(std::vector<Ready> ready) {
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_CHECK(ready.size() <= unsent_);
  TraceMe trace([&] { return TraceMeEncode("fusewire part out", {{"tensors", ready.size()}}); }, kTraceLevel);
  const int64_t now_ns = events_.empty() ? 0 : observe::EventNowNs();
  uint64_t body_bytes = 0;
  for (Ready& one : ready) {
    if (head_.size() > kPartHeadBytesMax || body_.size() > kPartSegmentsMax || body_bytes >= kPartBodyBytesMax) {
      GlobalCounters().Add(&Counters::parts_out);
      reply_.SendPart(head_, std::move(body_));
      head_.clear();
      body_ = Buffers();
      body_bytes = 0;
    }
    const size_t segments = body_.size();
    Append(one);
    for (size_t i = segments; i < body_.size(); ++i) body_bytes += body_[i].size();
    FUSEWIRE_DCHECK(!sent_[one.index]);
    sent_[one.index] = true;
    if (!events_.empty()) EndEvent(one, now_ns);
    one.tensor = Tensor();
  }
  unsent_ -= ready.size();
  GlobalCounters().Add(&Counters::parts_out);
  if (unsent_ == 0) {
    reply_.Send(Status::Ok(), head_, std::move(body_));
  } else {
    reply_.SendPart(head_, std::move(body_));
  }
  head_.clear();
  body_ = Buffers();
}

void Provider::EndEvent(const Ready& ready, int64_t now_ns) {
  events_[ready.index].End(ready.status.ok(), ready.tensor.TotalBytes(), now_ns,
                           [this, &ready](observe::EventFacts* facts) {
                             const tensorflow::Rendezvous::ParsedKey& key = *wants_[ready.index].key;
                             facts->peer = ShortTask({key.dst_device.data(), key.dst_device.size()});
                             facts->name = std::string(ShortEdge({key.edge_name.data(), key.edge_name.size()}));
                             facts->bytes_out = ready.status.ok() ? ready.tensor.TotalBytes() : 0;
                             if (!ready.status.ok()) facts->error = ready.status.ToString();
                           });
}

// At home. The caller is gone: aborts the producers of its steps, as gRPC does.
void Provider::OnUnwanted() {
  FUSEWIRE_AT_HOME(home_);
  std::set<int64_t> steps;
  for (size_t i = 0; i < wants_.size(); ++i) {
    if (!sent_[i]) steps.insert(wants_[i].step);
  }
  for (int64_t step : steps) source_.abort_step(step);
}

void Provider::Unref() {
  const int refs = refs_.fetch_sub(1, std::memory_order_acq_rel);
  FUSEWIRE_CHECK(refs > 0);
  if (refs == 1) delete this;
}

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
