// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/serve/values.h"

#include <deque>
#include <map>
#include <utility>

#include <absl/strings/str_cat.h>
#include <tensorflow/core/distributed_runtime/session_mgr.h>
#include "fusewire/base/check.h"
#include "fusewire/tf/bridge/status.h"
#include "fusewire/tf/heads/calls.h"
#include "fusewire/tf/heads/moves.h"
#include "fusewire/tf/peer/marks.h"
#include "fusewire/tf/receive/step_context.h"

namespace fusewire::tf {
namespace {

constexpr size_t kMovedBytesMax = 256 << 20;  // they are copied while steps stand still

constexpr int kRoutesMax = 4;  // of one call

class KeepCall final : public rpc::Call {
 public:
  // `route` finds the holder, and calls Go or Fail; again, if it has moved or was restarted meanwhile.
  KeepCall(const std::string& session, int64_t step, std::function<void(KeepCall*)> route,
           std::function<void(const TfStatus&)> done)
      : Call(kKeepValues), route_(std::move(route)), done_(std::move(done)) {
    AppendText(&text_, session);
    AppendFixed64(&text_, static_cast<uint64_t>(step));
  }

  TfStatus Add(const KeptValue& value) {
    AppendVarint(&text_, value.number);
    AppendVarint(&text_, value.takers);
    tensors_.push_back(value.tensor);
    return AppendTensor(value.tensor, &text_, &body);
  }

  void Route() { route_(this); }
  // Before one of the next two.
  void SetHolder(PeerPtr holder) { holder_ = std::move(holder); }
  void Go(ChannelPtr channel) {
    channel_ = std::move(channel);
    Start();
  }
  // Instead of Go.
  void Fail(const TfStatus& status) { End(status); }

 private:
  void Start() {
    head = text_;
    repeats_.Begin(*channel_);
    GlobalCounters().Add(&Counters::calls_out);
    channel_->client().Start(this);
  }

  void OnDone(Status status) override {
    channel_->ReportStatus(status);
    // Values that come twice are kept once, and nobody takes them before this run has ended.
    const bool is_again = repeats_.IsAgain(*channel_, &status);
    const bool is_elsewhere =
        !is_again && HasLost(*channel_, status) && holder_->may_return() && ++routes_ < kRoutesMax;
    if (is_again || is_elsewhere) {
      std::string same;  // the heads of the tensors are in text_
      body.clear();
      for (const tensorflow::Tensor& tensor : tensors_) AppendTensor(tensor, &same, &body).IgnoreError();
      if (is_again) return Start();
      repeats_ = Repeats();
      return tensorflow::Env::Default()->SchedClosure([this] { Route(); });
    }
    End(WithTarget(ToTf(status), channel_->target(), "KeepValues"));
  }

  // A holder that was restored from a snapshot lacks all values of the step, even those that came in time: the part
  // that takes them notices, and they are left again. This run has succeeded.
  void End(TfStatus status) {
    if (holder_ != nullptr && holder_->may_return()) status = TfStatus();
    auto done = std::move(done_);
    delete this;
    done(status);
  }

  PeerPtr holder_;  // shared_ptr: as the worker cache has it
  ChannelPtr channel_;
  const std::function<void(KeepCall*)> route_;
  int routes_ = 0;
  std::function<void(const TfStatus&)> done_;
  std::string text_;
  std::vector<tensorflow::Tensor> tensors_;  // until they have arrived
  Repeats repeats_;
};

// The last of several ends, with the first error among them.
class KeptEnds {
 public:
  KeptEnds(size_t count, std::function<void(const TfStatus&)> done) : left_(count), done_(std::move(done)) {}
  void One(const TfStatus& status) {
    TfStatus end;
    {
      MutexLock lock(mutex_);
      if (status_.ok()) status_ = status;
      if (--left_ > 0) return;
      end = status_;
    }
    done_(end);
  }

 private:
  Mutex mutex_;
  size_t left_ FUSEWIRE_GUARDED_BY(mutex_);
  TfStatus status_ FUSEWIRE_GUARDED_BY(mutex_);
  std::function<void(const TfStatus&)> done_;
};

// Null: it is not there, or has been taken by all.
template <class Values>
KeptValue* FindValue(Values* values, uint32_t number) {
  auto found = values->find(number);
  return found == values->end() || found->second.takers == 0 ? nullptr : &found->second;
}

TfStatus NoDataPort(const std::string& task) {
  return absl::UnavailableError(absl::StrCat("fusewire: ", task, " has no data port"));
}

void SendTo(tensorflow::WorkerEnv* env, const std::string& task, const std::string& session, KeepCall* call) {
  SessionPtr found;
  TfStatus status = env->session_mgr->WorkerSessionForSession(session, &found);
  if (!status.ok()) return call->Fail(status);
  Ways ways;
  status = FindWays(found->GetSharedWorkerCache(), task, &ways);
  if (!status.ok() || ways.peer == nullptr) return call->Fail(status.ok() ? NoDataPort(task) : status);
  call->SetHolder(ways.peer);
  ways.peer->Route(ways.side, [call, task](const TfStatus& routed, ChannelPtr channel) {
    if (routed.ok() && channel != nullptr) {
      call->Go(std::move(channel));
    } else {
      call->Fail(routed.ok() ? NoDataPort(task) : routed);
    }
  });
}

}  // namespace

void KeepResults(tensorflow::WorkerEnv* env, const PartEnds& ends, const std::string& session, PartRun* run,
                 StepStore* store, std::function<void(const TfStatus&)> done) {
  std::map<std::string, std::vector<KeptValue>> by_holder;
  for (size_t i = 0; i < ends.keeps().size(); ++i) {
    const PartEnds::Kept& kept = ends.keeps()[i];
    tensorflow::Tensor& result = run->rets[ends.returned() + i];
    by_holder[kept.holder].push_back(KeptValue{kept.number, kept.takers, std::move(result)});
  }
  run->rets.resize(ends.returned());
  auto here = by_holder.find("");
  if (here != by_holder.end()) {
    store->Keep(run->step, session, std::move(here->second));
    by_holder.erase(here);
  }
  if (by_holder.empty()) return done(TfStatus());
  // shared_ptr: any of many ends may be the last.
  auto all = std::make_shared<KeptEnds>(by_holder.size(), std::move(done));
  for (auto& holder : by_holder) {
    auto route = [env, task = holder.first, session](KeepCall* call) { SendTo(env, task, session, call); };
    auto* call = new KeepCall(session, run->step, route, [all](const TfStatus& status) { all->One(status); });
    TfStatus added;
    for (const KeptValue& value : holder.second) {
      if (added.ok()) added = call->Add(value);
    }
    if (added.ok()) {
      call->Route();
    } else {
      call->Fail(added);
    }
  }
}

Status IncomingValues::Read(tensorflow::WorkerEnv* env, ConstBytes head, const rpc::SegmentSizes* sizes) {
  VarReader reader(head);
  const KeepHead keep = DecodeKeepHead(&reader);
  session_ = keep.session.ToString();
  step_ = keep.step;
  place_.device = env->device_mgr->HostCPU();
  landings_.emplace(sizes);
  while (reader.ok() && !reader.done()) {
    if (values_.size() >= kKeptInCallMax) {
      return Status::Invalid("a call with more than " + std::to_string(kKeptInCallMax) + " values to be kept");
    }
    KeptHead kept;
    FUSEWIRE_TRY(DecodeKeptHead(&reader, &kept));
    KeptValue value;
    value.number = kept.number;
    value.takers = kept.takers;
    values_.push_back(value);
    FUSEWIRE_TRY(landings_->Begin(&reader, place_));
  }
  if (!reader.ok()) {
    return Status::Invalid("a list of values to be kept is cut off behind value " + std::to_string(values_.size()));
  }
  return landings_->EndOfMessage();
}

TfStatus IncomingValues::Store(StepStore* store) {
  std::vector<tensorflow::Tensor> tensors;
  TF_RETURN_IF_ERROR(landings_->Finish(place_, &tensors));
  for (size_t i = 0; i < values_.size(); ++i) values_[i].tensor = std::move(tensors[i]);
  store->Keep(step_, session_, std::move(values_));
  return TfStatus();
}

void StepStore::Keep(int64_t step, const std::string& session, std::vector<KeptValue> values) {
  std::unordered_map<int64_t, Step>::node_type gone;  // ends when the lock has been given back
  Drawer& drawer = DrawerOf(step);
  MutexLock lock(drawer.mutex);
  Step& at = drawer.steps[step];
  at.session = session;
  for (KeptValue& value : values) {
    KeptValue& kept = at.values[value.number];
    if (kept.takers == 0 && value.takers > 0) ++at.left;
    FUSEWIRE_DCHECK(kept.takers == 0 || at.left > 0);
    if (kept.takers > 0 && value.takers == 0) --at.left;
    kept = std::move(value);
  }
  // A step remains only while values are to be taken.
  if (at.left == 0) gone = drawer.steps.extract(step);
}

TfStatus StepStore::Take(int64_t step, const std::vector<uint32_t>& numbers, size_t first,
                         std::vector<tensorflow::Tensor>* args) {
  FUSEWIRE_DCHECK(first + numbers.size() <= args->size());
  Drawer& drawer = DrawerOf(step);
  MutexLock lock(drawer.mutex);
  auto found = drawer.steps.find(step);
  // All of them, or none: if some are lost, the others are taken once the lost ones have been left again.
  std::vector<KeptValue*> values;
  for (uint32_t number : numbers) {
    KeptValue* value = found == drawer.steps.end() ? nullptr : FindValue(&found->second.values, number);
    if (value == nullptr) {
      TfStatus gone = absl::AbortedError(
          "a value that an earlier part of this step left on the parameter server is gone: the server was probably "
          "restarted");
      gone.SetPayload(kValuesGone, absl::Cord());
      return gone;
    }
    values.push_back(value);
  }
  for (KeptValue* value : values) {
    FUSEWIRE_DCHECK(value->takers > 0);  // no part takes a value twice
    if (--value->takers > 0) {
      (*args)[first++] = value->tensor;
      continue;
    }
    (*args)[first++] = std::move(value->tensor);
    value->tensor = tensorflow::Tensor();
    FUSEWIRE_CHECK(found->second.left > 0);
    --found->second.left;
  }
  if (found != drawer.steps.end() && found->second.left == 0) drawer.steps.erase(found);
  return TfStatus();
}

void StepStore::Drop(int64_t step) {
  std::unordered_map<int64_t, Step>::node_type gone;  // as above
  Drawer& drawer = DrawerOf(step);
  MutexLock lock(drawer.mutex);
  gone = drawer.steps.extract(step);
}

void StepStore::DropSession(const std::string& session) {
  std::vector<Step> gone;  // as above
  for (Drawer& drawer : drawers_) {
    MutexLock lock(drawer.mutex);
    for (auto step = drawer.steps.begin(); step != drawer.steps.end();) {
      if (step->second.session != session) {
        ++step;
        continue;
      }
      gone.push_back(std::move(step->second));
      step = drawer.steps.erase(step);
    }
  }
}

TfStatus StepStore::Save(std::string* values) {
  std::vector<KeptTensor> kept;
  std::deque<std::string> texts;  // which kept points into
  size_t bytes = 0;
  for (Drawer& drawer : drawers_) {
    MutexLock lock(drawer.mutex);
    for (const auto& [step, at] : drawer.steps) {
      texts.push_back(at.session);
      const ConstBytes session(texts.back());
      for (const auto& [number, value] : at.values) {
        if (value.takers == 0) continue;
        tensorflow::TensorProto proto;
        value.tensor.AsProtoTensorContent(&proto);
        texts.push_back(proto.SerializeAsString());
        bytes += texts.back().size();
        if (bytes > kMovedBytesMax)
          return absl::ResourceExhaustedError("steps have left more than 256 MiB of values between their parts here");
        kept.push_back({session, step, number, value.takers, ConstBytes(texts.back())});
      }
    }
  }
  *values = EncodeKeptTensors(kept);
  return TfStatus();
}

TfStatus StepStore::Load(const std::string& values) {
  std::vector<KeptTensor> kept;
  const Status read = DecodeKeptTensors(ConstBytes(values), &kept);
  if (!read.ok()) return absl::DataLossError(read.cause());
  for (const KeptTensor& one : kept) {
    tensorflow::TensorProto proto;
    KeptValue value{one.number, one.takers, {}};
    if (!proto.ParseFromArray(one.tensor.data, static_cast<int>(one.tensor.size)) || !value.tensor.FromProto(proto))
      return absl::DataLossError("a value of a step is not a tensor");
    Keep(one.step, one.session.ToString(), {std::move(value)});
  }
  return TfStatus();
}

size_t StepStore::steps() {
  size_t count = 0;
  for (Drawer& drawer : drawers_) {
    MutexLock lock(drawer.mutex);
    count += drawer.steps.size();
  }
  return count;
}

}  // namespace fusewire::tf
