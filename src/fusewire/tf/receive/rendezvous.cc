// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/receive/rendezvous.h"

#include <utility>

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <tensorflow/core/common_runtime/device_mgr.h>
#include <tensorflow/core/distributed_runtime/call_options.h>
#include <tensorflow/core/distributed_runtime/request_id.h>
#include <tensorflow/core/distributed_runtime/tensor_coding.h>
#include <tensorflow/core/distributed_runtime/worker_session.h>
#include "fusewire/base/check.h"
#include "fusewire/tf/bridge/names.h"
#include "fusewire/tf/peer/marks.h"

namespace fusewire::tf {

using tensorflow::Tensor;

namespace {

// A limit on graphs with a list, because some graphs are never deregistered.
constexpr size_t kListsMax = 16384;

}  // namespace

// A receive over our wire. Two events come in either order: its kernel wants it (Meet), and it ends. From Meet to its
// end, it is registered with TensorFlow's base class, which aborts it with the step.
class Rendezvous::WireRecv final : public Recv, public tensorflow::BaseRecvTensorCall {
 public:
  // `log` is null where the step is not traced.
  WireRecv(Rendezvous* rendezvous, ChannelPtr channel, std::string key, TensorPlace place, TransferLogPtr log)
      : Recv(std::move(channel), rendezvous->step_id_, std::move(key), place),
        rendezvous_(rendezvous),
        log_(std::move(log)) {
    rendezvous_->Ref();  // until its end
  }

  // Any thread, once. Calls `done` here if the tensor has arrived.
  void Meet(const Args& args, DoneCallback done) {
    FUSEWIRE_DCHECK(done != nullptr);
    FUSEWIRE_DCHECK(done_ == nullptr);
    args_ = args;
    done_ = std::move(done);
    if (!is_there_.load(std::memory_order_acquire)) {
      is_registered_ = true;
      rendezvous_->RegisterCall(this, args_);
    }
    if (has_one_end_.exchange(true, std::memory_order_acq_rel)) HandOver();
  }

  // tensorflow::BaseRecvTensorCall
  void Start(std::function<void()>) override { Go(); }
  // Called under the base class's lock, while the call is registered: it cannot end meanwhile.
  void StartAbort(const TfStatus& why) override {
    FUSEWIRE_DCHECK(!why.ok());
    {
      MutexLock lock(mutex_);
      if (!status_.ok()) return;
      status_ = why;
    }
    Abort(why);
    rendezvous_->TellAbort(channel());
  }
  TfStatus status() const override {
    MutexLock lock(mutex_);
    return status_;
  }

 private:
  void OnArrival() override {
    if (log_ != nullptr) arrived_us_ = static_cast<int64_t>(tensorflow::Env::Default()->NowMicros());
  }

  void OnEnd(const TfStatus& status, const Tensor& tensor, bool is_dead) override {
    FUSEWIRE_DCHECK(!is_there_.load(std::memory_order_relaxed));
    result_ = status;
    tensor_ = tensor;
    is_dead_ = is_dead;
    if (status.ok() && log_ != nullptr) Record(tensor);
    is_there_.store(true, std::memory_order_release);
    if (has_one_end_.exchange(true, std::memory_order_acq_rel)) HandOver();
    rendezvous_->Unref();
  }

  void HandOver() {
    FUSEWIRE_DCHECK(is_there_.load(std::memory_order_relaxed));
    FUSEWIRE_DCHECK(done_ != nullptr);
    if (is_registered_) rendezvous_->DeregisterCall(this, args_);
    TfStatus end = this->status();
    if (end.ok()) {
      end = result_;
      GlobalCounters().Add(&Counters::recvs);
      if (tensor_.dtype() == tensorflow::DT_FLOAT && tensor_.NumElements() == 0)
        GlobalCounters().Add(&Counters::control_edges);
    }
    DoneCallback done = std::move(done_);
    Tensor tensor = std::move(tensor_);  // the only reference: the consumer may then write into it
    done(end, Args(), args_, end.ok() ? tensor : Tensor(), is_dead_);
  }

  // As gRPC's workers do. A key is source;incarnation;target;tensor;frame.
  void Record(const Tensor& tensor) {
    std::vector<std::string> parts = absl::StrSplit(key(), ';');
    if (parts.size() != 5) return;
    auto now_us = static_cast<int64_t>(tensorflow::Env::Default()->NowMicros());
    if (arrived_us_ == 0) arrived_us_ = now_us;  // a dead one has no content
    auto bytes = static_cast<int64_t>(tensor.TotalBytes());
    log_->RecordRecvTensor(step(), arrived_us_, now_us, parts[3], parts[0], parts[2], bytes);
  }

  Rendezvous* const rendezvous_;  // holds a reference until the end
  const TransferLogPtr log_;
  int64_t arrived_us_ = 0;  // at home
  std::atomic<bool> is_there_{false};
  std::atomic<bool> has_one_end_{false};  // the second hands over
  // Of Meet.
  Args args_;
  DoneCallback done_;
  bool is_registered_ = false;
  // Of the end.
  TfStatus result_;
  Tensor tensor_;
  bool is_dead_ = false;
  mutable Mutex mutex_;
  TfStatus status_ FUSEWIRE_GUARDED_BY(mutex_);
};

// A receive whose way is not known yet. It is registered with TensorFlow's base class, which aborts it with the step.
class Rendezvous::WaySearch final : public tensorflow::BaseRecvTensorCall {
 public:
  WaySearch(Rendezvous* rendezvous, const Args& args, Routed found)
      : rendezvous_(rendezvous),
        args_(args),
        found_(std::move(found)),
        search_(std::make_shared<Search>(
            [this](const TfStatus& status, ChannelPtr channel) { End(status, std::move(channel)); })) {
    rendezvous_->Ref();  // until its end
  }

  void Go(const Ways& ways) {
    FUSEWIRE_DCHECK(ways.peer != nullptr);
    FUSEWIRE_DCHECK(ways.side != nullptr);
    SearchPtr search = search_;  // which outlives this
    rendezvous_->RegisterCall(this, args_);
    search->Begin([&ways](Routed routed) { ways.peer->Route(ways.side, std::move(routed)); });
  }

  // tensorflow::BaseRecvTensorCall
  void Start(std::function<void()>) override {}
  void StartAbort(const TfStatus& why) override { search_->GiveUp(why); }
  TfStatus status() const override { return search_->status(); }

 private:
  ~WaySearch() override = default;

  void End(const TfStatus& status, ChannelPtr channel) {
    rendezvous_->DeregisterCall(this, args_);
    TfRef<Rendezvous> held(rendezvous_);
    FUSEWIRE_DCHECK(found_ != nullptr);
    Routed found = std::move(found_);
    delete this;
    found(status, std::move(channel));
  }

  Rendezvous* const rendezvous_;  // holds a reference
  const Args args_;
  Routed found_;
  const SearchPtr search_;  // shared_ptr: what it asks holds it too
};

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
                       "see: fusewire explain incarnation-mismatch#a-task-has-restarted"));
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

Rendezvous::Rendezvous(const tensorflow::WorkerEnv* env, int64_t step, ReceiveBookPtr book)
    : BaseRemoteRendezvous(env, step), book_(std::move(book)), step_(*env, step) {}

Rendezvous::~Rendezvous() {
  for (std::atomic<WireRecv*>& recv : ahead_) {
    if (recv != nullptr) recv.load()->Unref();
  }
  if (!unlisted_.empty()) book_->Learn(graph_, std::move(unlisted_));
}

// ---- asking ahead ----

void Rendezvous::SetGraph(const std::string& session, const std::string& graph, bool is_traced) {
  step_.SetHandle(session, is_traced);
  graph_ = ReceiveBook::NameOf(session, graph);
  list_ = book_->Find(graph_);
}

TfStatus Rendezvous::Initialize(tensorflow::WorkerSession* session) {
  TF_RETURN_IF_ERROR(BaseRemoteRendezvous::Initialize(session));
  step_.SetSession(session);
  if (list_ != nullptr) AskAhead();
  return TfStatus();
}

void Rendezvous::AskAhead() {
  FUSEWIRE_DCHECK(list_ != nullptr);
  FUSEWIRE_DCHECK(ahead_.empty());
  ahead_ = std::vector<std::atomic<WireRecv*>>(list_->receives().size());
  RecvGroup together;
  // Consecutive receives mostly have the same task and device.
  StepContext::Source source;
  TensorPlace place;
  const std::string *task = nullptr, *device = nullptr;
  for (size_t i = 0; i < ahead_.size(); ++i) {
    const ReceiveList::Receive& listed = list_->receives()[i];
    if (task == nullptr || *task != listed.task) {
      if (!step_.FindSource(listed.task, &source).ok()) source = StepContext::Source();
      task = &listed.task;
    }
    if (device == nullptr || *device != listed.device) {
      if (!session()->device_mgr()->LookupDevice(listed.device, &place.device).ok()) place.device = nullptr;
      device = &listed.device;
    }
    // A receive that can't be requested now is requested by its kernel, and fails then.
    if (source.channel == nullptr || place.device == nullptr) continue;
    place.attributes = listed.attributes;
    auto* recv = new WireRecv(this, source.channel, listed.key, place, source.is_traced ? source.ways.log : nullptr);
    recv->Ref();
    ahead_[i].store(recv, std::memory_order_release);
    recv->Go();
  }
}

Rendezvous::WireRecv* Rendezvous::TakeAhead(absl::string_view key) {
  int index = ahead_.empty() ? -1 : list_->Find(key);
  FUSEWIRE_DCHECK(index < static_cast<int>(ahead_.size()));  // of the list that was asked ahead
  return index < 0 ? nullptr : ahead_[static_cast<size_t>(index)].exchange(nullptr, std::memory_order_acq_rel);
}

// Not listed: receives in loops, whose keys differ in each iteration, and those into device memory, which need the
// kernel's context.
void Rendezvous::Remember(const ParsedKey& parsed, const Args& args) {
  absl::string_view key = parsed.FullKey();
  if (graph_.empty() || !absl::EndsWith(key, ";0:0") || args.device_context != nullptr) return;
  if (list_ != nullptr && list_->Find(key) >= 0) return;
  ReceiveList::Receive receive;
  receive.key = std::string(key);
  receive.task = std::string(TaskOfDevice(parsed.src_device));
  receive.device = std::string(parsed.dst_device);
  receive.attributes = args.alloc_attrs;
  MutexLock lock(mutex_);
  unlisted_.push_back(std::move(receive));
}

void Rendezvous::RecvAsync(const ParsedKey& parsed, const Args& args, DoneCallback done) {
  if (WireRecv* ahead = TakeAhead(parsed.FullKey())) {
    ahead->Meet(args, std::move(done));
    ahead->Unref();
    return;
  }
  tensorflow::WorkerSession* on = session();
  // The base class would copy the key and all its parts.
  if (on != nullptr && !parsed.src_device.empty()) {
    absl::string_view own = on->worker_name();
    absl::string_view source(parsed.src_device.data(), parsed.src_device.size());
    absl::string_view target(parsed.dst_device.data(), parsed.dst_device.size());
    if (TaskOfDevice(source) != own && absl::StartsWith(target, own) && TaskOfDevice(target) == own)
      return RecvFromRemoteAsync(parsed, args, std::move(done));
  }
  BaseRemoteRendezvous::RecvAsync(parsed, args, std::move(done));
}

void Rendezvous::RecvFromRemoteAsync(const ParsedKey& parsed, const Args& args, DoneCallback done) {
  StepContext::Source source;
  TfStatus found =
      step_.FindSource(TaskOfDevice(absl::string_view(parsed.src_device.data(), parsed.src_device.size())), &source);
  if (!found.ok()) return done(found, Args(), args, Tensor(), false);
  TransferLogPtr log = source.is_traced ? std::move(source.ways.log) : nullptr;
  if (source.channel != nullptr)
    return StartOnWire(parsed, args, std::move(done), std::move(source.channel), std::move(log));
  if (source.ways.peer == nullptr || source.ways.peer->is_grpc_only())
    return StartOnGrpc(parsed, args, std::move(done), std::move(source.ways.side));
  auto found_way = [this, parsed, args, done = std::move(done), side = source.ways.side, log = std::move(log)](
                       const TfStatus& status, ChannelPtr channel) {
    if (!status.ok()) return done(status, Args(), args, Tensor(), false);
    if (channel != nullptr) return StartOnWire(parsed, args, done, std::move(channel), log);
    GlobalCounters().Add(&Counters::fallback_grpc_calls);
    StartOnGrpc(parsed, args, done, side);
  };
  (new WaySearch(this, args, std::move(found_way)))->Go(source.ways);
}

void Rendezvous::StartOnWire(const ParsedKey& parsed, const Args& args, DoneCallback done, ChannelPtr channel,
                             TransferLogPtr log) {
  FUSEWIRE_DCHECK(channel != nullptr);
  TensorPlace place;
  TfStatus found = session()->device_mgr()->LookupDevice(parsed.dst_device, &place.device);
  if (!found.ok()) return done(found, Args(), args, Tensor(), false);
  place.attributes = args.alloc_attrs;
  place.context = args.device_context;
  Remember(parsed, args);
  auto* recv = new WireRecv(this, std::move(channel), std::string(parsed.FullKey()), place, std::move(log));
  recv->Meet(args, std::move(done));
  recv->Start(nullptr);
}

void Rendezvous::TellAbort(const ChannelPtr& channel) {
  if (IsRemoteEagerContextDefault()) return;  // it is still used by other operations
  step_.TellAbort(channel);
}

// ---- from tasks that have no data port: one by one, or fused ----

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
  StepContext::Source source;
  tensorflow::Device* device = nullptr;
  // An error here is reported for each tensor on its own.
  if (!is_initialized() || wanted->keys->size() < 2) return false;
  if (!step_.FindSource(TaskOfDevice(first.src_device), &source).ok()) return false;
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

// ---- the steps of a task ----

TfRef<tensorflow::RemoteRendezvous> RendezvousMgr::Expect(int64_t step, const std::string& session,
                                                          const std::string& graph, bool is_traced) {
  TfRef<tensorflow::RemoteRendezvous> rendezvous = Find(step);
  static_cast<Rendezvous*>(rendezvous.get())->SetGraph(session, graph, is_traced);
  return rendezvous;
}

TfRef<tensorflow::BaseRemoteRendezvous> RendezvousMgr::Create(int64_t step, const tensorflow::WorkerEnv* env) {
  return TfRef<tensorflow::BaseRemoteRendezvous>(new Rendezvous(env, step, book_));
}

ReceiveList::ReceiveList(std::vector<Receive> receives) : receives_(std::move(receives)) {
  index_.reserve(receives_.size());
  for (size_t i = 0; i < receives_.size(); ++i) index_.emplace(receives_[i].key, static_cast<int>(i));
  FUSEWIRE_DCHECK(index_.size() <= receives_.size());
}

int ReceiveList::Find(std::string_view key) const {
  auto found = index_.find(key);
  FUSEWIRE_DCHECK(found == index_.end() || receives_[static_cast<size_t>(found->second)].key == key);
  return found == index_.end() ? -1 : found->second;
}

ReceiveListPtr ReceiveBook::Find(const std::string& graph) {
  MutexLock lock(mutex_);
  auto found = lists_.find(graph);
  return found == lists_.end() ? nullptr : found->second;
}

void ReceiveBook::Learn(const std::string& graph, std::vector<ReceiveList::Receive> more) {
  MutexLock lock(mutex_);
  auto found = lists_.find(graph);
  if (found == lists_.end()) {
    if (lists_.size() >= kListsMax) return;
    found = lists_.emplace(graph, std::make_shared<const ReceiveList>(std::vector<ReceiveList::Receive>())).first;
  }
  // Several steps may have made the same receives.
  std::vector<ReceiveList::Receive> all = found->second->receives();
  for (ReceiveList::Receive& receive : more) {
    if (found->second->Find(receive.key) < 0) all.push_back(std::move(receive));
  }
  found->second = std::make_shared<const ReceiveList>(std::move(all));
}

void ReceiveBook::Forget(const std::string& graph) {
  MutexLock lock(mutex_);
  lists_.erase(graph);
}

}  // namespace fusewire::tf
