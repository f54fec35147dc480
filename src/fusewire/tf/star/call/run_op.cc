// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The worker's end of a part: an operation that pushes its inputs to the parameter server and pulls its outputs, in one
// message each way. The part is placed there with the first step, and again whenever the server does not know it.
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <absl/strings/str_cat.h>
#include <tensorflow/core/common_runtime/step_stats_collector.h>
#include <tensorflow/core/framework/common_shape_fns.h>
#include <tensorflow/core/framework/op.h>
#include <tensorflow/core/framework/op_kernel.h>

#include "fusewire/base/check.h"
#include "fusewire/base/mutex.h"
#include "fusewire/observe/event.h"
#include "fusewire/reactor/completion.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/bridge/names.h"
#include "fusewire/tf/bridge/status.h"
#include "fusewire/tf/bridge/tensor.h"
#include "fusewire/tf/peer/marks.h"
#include "fusewire/tf/peer/methods.h"
#include "fusewire/tf/peer/peer.h"
#include "fusewire/tf/profile/trace.h"
#include "fusewire/tf/receive/rendezvous.h"
#include "fusewire/tf/star/call/recording.h"
#include "fusewire/tf/star/words.h"

namespace fusewire::tf {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// The attempts to place a part in one step.
constexpr int kPlacedMax = 3;
static_assert(kPlacedMax > 0);

// A part, and its number at the server that has it.
struct Placement {
  std::string task, piece, fingerprint;
  // The tasks that keep values of it for later parts, how often these will be taken, and how many values it takes.
  std::vector<std::string> holders;
  int64_t kept = 0, taken = 0;
  bool is_alone = false;       // no other part is called in its round
  std::string own_task, name;  // as they are recorded
  Mutex mutex;
  ChannelPtr channel FUSEWIRE_GUARDED_BY(mutex);  // shared_ptr: as the peer holds it
  uint64_t id FUSEWIRE_GUARDED_BY(mutex) = 0;
  Mark mark FUSEWIRE_GUARDED_BY(mutex);  // of its runs there
};
// shared_ptr: a call may outlive the kernel's session.
using PlacementPtr = std::shared_ptr<Placement>;

class PlaceCall final : public rpc::Call {
 public:
  using Placed = std::function<void(const TfStatus&, uint64_t id)>;
  PlaceCall(ChannelPtr channel, PlacementPtr placement, const std::string& session, Placed placed)
      : Call(kPlacePart),
        channel_(std::move(channel)),
        placement_(std::move(placement)),
        session_(session),
        placed_(std::move(placed)) {
    FUSEWIRE_DCHECK(channel_ != nullptr);
    FUSEWIRE_DCHECK(placement_ != nullptr);
    FUSEWIRE_DCHECK(placed_ != nullptr);
    AppendText(&text_, session_);
    AppendText(&text_, placement_->fingerprint);
  }
  void Go() {
    head = text_;
    GlobalCounters().Add(&Counters::calls_out);
    channel_->client().Start(this);
  }

 private:
  void OnDone(Status status) override {
    FUSEWIRE_AT_HOME(channel_->client().home());
    channel_->ReportStatus(status);
    TfStatus end = ToTf(status);
    uint64_t id = 0;
    if (status.ok()) {
      VarReader reader{ConstBytes(reply_head)};
      TfStatus read = ReadTfStatus(&reader, &end);
      if (!read.ok()) end = read;
      if (end.ok()) {
        const Status placed = DecodePlaced(&reader, &id);
        if (!placed.ok()) end = absl::DataLossError(placed.cause());
      }
    }
    if (end.ok() && id == 0 && !is_sent_) {
      is_sent_ = true;
      body.push_back(Buffer::CopyOf(ConstBytes(placement_->piece.data(), placement_->piece.size())));
      Go();
      return;
    }
    if (end.ok() && id == 0) end = absl::InternalError("a parameter server does not take a part of a graph");
    FUSEWIRE_DCHECK(!end.ok() || id != 0);
    end = WithTarget(end, channel_->target(), "PlacePart");
    if (end.ok() && RecordsCalls()) RecordPlaced(channel_->address(), id, session_, placement_->fingerprint);
    placed_(end, id);
    delete this;
  }

  const ChannelPtr channel_;
  const PlacementPtr placement_;
  const std::string session_;
  const Placed placed_;
  std::string text_;
  bool is_sent_ = false;
};

// One step of one part: it finds the way, places the part if the server does not have it, and runs it.
class Running final : public rpc::Call {
 public:
  Running(PlacementPtr placement, OpKernelContext* context, StepContext* step,
          tensorflow::AsyncOpKernel::DoneCallback done)
      : Call(kRunPart),
        placement_(std::move(placement)),
        context_(context),
        step_(step),
        done_(std::move(done)),
        search_(std::make_shared<Search>(
            [this](const TfStatus& status, ChannelPtr channel) { OnWay(status, std::move(channel)); })) {
    place_.device = static_cast<tensorflow::Device*>(context->device());
  }

  void Begin() {
    SearchPtr search = search_;  // which outlives this, as the task's name does
    PlacementPtr placement = placement_;
    StepContext* step = step_;
    cancellation_ = context_->cancellation_manager();
    if (cancellation_ != nullptr) {
      token_ = cancellation_->get_cancellation_token();
      if (!cancellation_->RegisterCallback(token_, [this] { OnCancel(); })) {
        cancellation_ = nullptr;
        End(absl::CancelledError("the step was cancelled"));
        return;
      }
    }
    search->Begin([&](Routed routed) { step->RouteTo(placement->task, std::move(routed)); });
  }

 private:
  // Any thread.
  void OnCancel() {
    is_cancelled_.store(true, std::memory_order_release);
    search_->GiveUp(absl::CancelledError("the step was cancelled"));
    {
      MutexLock lock(mutex_);
      if (placing_ != nullptr) placing_->Cancel();
    }
    Cancel();
  }

  void OnWay(const TfStatus& status, ChannelPtr channel) {
    FUSEWIRE_DCHECK(channel_ == nullptr);  // it is looked for once
    if (status.ok() && channel == nullptr) {
      End(absl::UnavailableError(absl::StrCat("fusewire: ", placement_->task,
                                              " has no data port any more, and a part of this session's graph was to "
                                              "run there. It answers over gRPC only: was it restarted without import "
                                              "fusewire? A new session goes without.")));
    } else if (!status.ok()) {
      End(status);
    } else {
      channel_ = std::move(channel);
      FindPart();
    }
  }

  void FindPart() {
    uint64_t id = 0;
    {
      MutexLock lock(placement_->mutex);
      if (placement_->channel == channel_) id = placement_->id;
      mark_ = placement_->mark;
    }
    if (id != 0) {
      Go(id);
      return;
    }
    if (++placed_ > kPlacedMax) {
      End(absl::AbortedError("a parameter server forgets a part of a graph as soon as it is placed"));
      return;
    }
    PlacePart();
  }

  void PlacePart() {
    auto* call = new PlaceCall(channel_, placement_, step_->session_handle(),
                               [this](const TfStatus& status, uint64_t id) { OnPlaced(status, id); });
    {
      MutexLock lock(mutex_);
      FUSEWIRE_DCHECK(placing_ == nullptr);
      placing_ = call;
      if (is_cancelled_.load(std::memory_order_acquire)) call->Cancel();
    }
    call->Go();
  }

  void OnPlaced(const TfStatus& status, uint64_t id) {
    {
      MutexLock lock(mutex_);
      FUSEWIRE_DCHECK(placing_ != nullptr);
      placing_ = nullptr;
    }
    if (!status.ok()) {
      End(status);
      return;
    }
    {
      MutexLock lock(placement_->mutex);
      placement_->channel = channel_;
      placement_->id = id;
      const std::string runner = ShortTask(placement_->task);
      placement_->mark = mark_ =
          MarkRun(observe::Kind::kRunOut, placement_->own_task, runner, placement_->name, runner, id);
    }
    Go(id);
  }

  void Go(uint64_t id) {
    if (is_cancelled_.load(std::memory_order_acquire)) {
      End(absl::CancelledError("the step was cancelled"));
      return;
    }
    FUSEWIRE_DCHECK(id != 0);
    FUSEWIRE_DCHECK(body.empty());  // an earlier attempt has sent its body
    TraceMe trace([this] { return Traced("fusewire run part"); }, kTraceLevel);
    text_.clear();
    AppendFixed64(&text_, id);
    AppendFixed64(&text_, static_cast<uint64_t>(context_->step_id()));
    text_.push_back(static_cast<char>(is_traced() ? kTraced : 0));
    for (int i = 0; i < context_->num_inputs(); ++i) {
      TfStatus appended = AppendTensor(context_->input(i), &text_, &body);
      if (!appended.ok()) {
        body.clear();
        End(appended);
        return;
      }
    }
    head = text_;
    bytes_in_ = bytes_out_ = 0;
    for (const Buffer& segment : body) bytes_out_ += segment.size();
    event_.Begin(observe::Kind::kRunOut, mark_.tag, context_->step_id(), FlowOf(mark_, context_->step_id()));
    if (placement_->kept > 0 && !has_left_) step_->Leave(placement_->holders, placement_->kept);
    has_left_ = true;
    if (RecordsCalls()) RecordRun(channel_->address(), id, text_, body);
    GlobalCounters().Add(&Counters::calls_out);
    bool is_only_one = under_way.fetch_add(1, std::memory_order_acq_rel) == 0;
    if (!is_only_one || !MayWait()) {
      channel_->client().Start(this);
      return;
    }
    reactor::Completion answered;
    answered_ = &answered;
    channel_->client().StartAndWait(this, &answered);
    FUSEWIRE_DCHECK(answered_ == &answered);
    answered_ = nullptr;
    Ended(answered.TakeStatus());
  }

  // The executor's thread itself waits for the answer if there is nothing else to do: no other call is under way, and
  // the next one of this step waits for this one. If others begin, the waiting thread serves them too.
  bool MayWait() const { return placement_->is_alone && step_->pool_threads() > 1 && !reactor::Reactor::InsideAny(); }

  bool is_traced() const { return context_->stats_collector() != nullptr; }

  Result<pipe::Landing> Land(ConstBytes head_in, const rpc::SegmentSizes& sizes) override {
    event_.Arrive();
    bytes_in_ = sizes.total();
    FUSEWIRE_TRY(Read(head_in, &sizes));
    return landings_->Where();
  }

  Status Read(ConstBytes head_in, const rpc::SegmentSizes* sizes) {
    VarReader reader(head_in);
    landings_ = std::make_unique<TensorLandings>(sizes);
    TfStatus read = ReadTfStatus(&reader, &answer_);
    if (!read.ok()) return Status::Corrupt(std::string(read.message()));
    if (answer_.ok()) {
      for (int i = 0; i < context_->num_outputs(); ++i) FUSEWIRE_TRY(landings_->Begin(&reader, place_));
      if (is_traced()) stats_ = reader.Text().ToString();
    }
    if (!reader.ok()) return Status::Corrupt("a run's answer without some of its results");
    return landings_->EndOfMessage();
  }

  void OnDone(Status status) override {
    FUSEWIRE_AT_HOME(channel_->client().home());
    if (answered_ == nullptr) {
      Ended(std::move(status));
      return;
    }
    answered_->Done(std::move(status));
  }

  void Ended(Status status) {
    const int were_under_way = under_way.fetch_sub(1, std::memory_order_acq_rel);
    FUSEWIRE_CHECK(were_under_way > 0);
    TraceMe trace([this] { return Traced("fusewire part ran"); }, kTraceLevel);
    channel_->ReportStatus(status);
    if (status.code() == Code::kApplication && status.app_code() == kUnknownPart) {
      {
        MutexLock lock(placement_->mutex);
        if (placement_->channel == channel_) placement_->channel = nullptr;
      }
      EndEvent(ToTf(status));
      FindPart();
      return;
    }
    if (status.ok() && landings_ == nullptr) status = Read(ConstBytes(reply_head), nullptr);
    if (!status.ok()) {
      End(WithTarget(ToTf(status), channel_->target(), "RunPart"));
      return;
    }
    if (!answer_.ok()) {
      // The status of a step names the task.
      End(TfStatus(answer_.code(), absl::StrCat("From ", placement_->task, ":\n", answer_.message())));
      return;
    }
    std::vector<Tensor> results;
    TfStatus end = landings_->Finish(place_, &results);
    FUSEWIRE_DCHECK(!end.ok() || results.size() == static_cast<size_t>(context_->num_outputs()));
    for (size_t i = 0; end.ok() && i < results.size(); ++i) {
      int index = static_cast<int>(i);
      if (results[i].dtype() != context_->expected_output_dtype(index))
        end = absl::DataLossError("a parameter server sent a tensor of another type than its part has");
      if (end.ok()) context_->set_output(index, std::move(results[i]));
    }
    if (end.ok() && placement_->taken > 0) step_->Taken(placement_->taken);
    if (!stats_.empty()) SaveStats();
    End(end);
  }

  std::string Traced(const char* name) const {
    return TraceMeEncode(name, {{"peer", ShortTask(placement_->task)}, {"step", context_->step_id()}});
  }

  void EndEvent(const TfStatus& status) {
    event_.End(status.ok(), bytes_in_ + bytes_out_, [&](observe::EventFacts* facts) {
      facts->peer = ShortTask(placement_->task);
      facts->name = placement_->name;
      facts->bytes_out = bytes_out_;
      for (int i = 0; status.ok() && i < context_->num_outputs(); ++i) {
        if (const Tensor* output = context_->mutable_output(i)) facts->bytes_in += output->TotalBytes();
      }
      if (!status.ok()) facts->error = status.ToString();
    });
  }

  void SaveStats() {
    auto* collector = dynamic_cast<tensorflow::StepStatsCollector*>(context_->stats_collector());
    tensorflow::StepStats stats;
    if (collector == nullptr || !stats.ParseFromString(stats_)) return;
    for (const auto& device : stats.dev_stats()) {
      for (const auto& node : device.node_stats())
        collector->Save(device.device(), new tensorflow::NodeExecStats(node));
    }
  }

  void End(const TfStatus& status) {
    if (cancellation_ != nullptr) cancellation_->DeregisterCallback(token_);
    if (!status.ok()) context_->SetStatus(status);
    EndEvent(status);
    FUSEWIRE_DCHECK(done_ != nullptr);  // it ends once
    auto done = std::move(done_);
    delete this;
    done();
  }

  const PlacementPtr placement_;
  OpKernelContext* const context_;
  StepContext* const step_;
  tensorflow::AsyncOpKernel::DoneCallback done_;
  TensorPlace place_;
  tensorflow::CancellationManager* cancellation_ = nullptr;
  tensorflow::CancellationToken token_ = 0;
  std::atomic<bool> is_cancelled_{false};
  const SearchPtr search_;  // shared_ptr: what it asks holds it too
  Mutex mutex_;
  PlaceCall* placing_ FUSEWIRE_GUARDED_BY(mutex_) = nullptr;
  ChannelPtr channel_;
  int placed_ = 0;
  Mark mark_;
  observe::Event event_;                   // the run, from its request until its results are there
  uint64_t bytes_in_ = 0, bytes_out_ = 0;  // of its tensors, in segments of their own
  std::string text_;
  bool has_left_ = false;
  static std::atomic<int> under_way;         // of the process
  reactor::Completion* answered_ = nullptr;  // of the thread that waits for this call
  // Of the answer.
  TfStatus answer_;
  std::unique_ptr<TensorLandings> landings_;
  std::string stats_;
};

std::atomic<int> Running::under_way{0};

class RunOp final : public tensorflow::AsyncOpKernel {
 public:
  explicit RunOp(tensorflow::OpKernelConstruction* context)
      : AsyncOpKernel(context), placement_(std::make_shared<Placement>()) {
    OP_REQUIRES_OK(context, context->GetAttr("task", &placement_->task));
    OP_REQUIRES_OK(context, context->GetAttr("piece", &placement_->piece));
    OP_REQUIRES_OK(context, context->GetAttr("fingerprint", &placement_->fingerprint));
    OP_REQUIRES_OK(context, context->GetAttr("holders", &placement_->holders));
    OP_REQUIRES_OK(context, context->GetAttr("kept", &placement_->kept));
    OP_REQUIRES_OK(context, context->GetAttr("taken", &placement_->taken));
    OP_REQUIRES_OK(context, context->GetAttr("alone", &placement_->is_alone));
    placement_->own_task = ShortTask(context->device()->attributes().name());
    OP_REQUIRES_OK(context, context->GetAttr("shown", &placement_->name));
  }

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    auto* rendezvous = dynamic_cast<Rendezvous*>(context->rendezvous());
    OP_REQUIRES_ASYNC(context, rendezvous != nullptr,
                      absl::InternalError("a part of a graph needs the rendezvous of a step of this task"), done);
    (new Running(placement_, context, &rendezvous->step(), std::move(done)))->Begin();
  }

 private:
  const PlacementPtr placement_;
};

REGISTER_OP("_FusewireRun")
    .Input("args: Tin")
    .Output("rets: Tout")
    .Attr("Tin: list(type) >= 0")
    .Attr("Tout: list(type) >= 0")
    .Attr("task: string")
    .Attr("shown: string")
    .Attr("piece: string")
    .Attr("fingerprint: string")
    .Attr("holders: list(string)")
    .Attr("kept: int")
    .Attr("taken: int")
    .Attr("alone: bool")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(tensorflow::shape_inference::UnknownShape);
REGISTER_KERNEL_BUILDER(Name("_FusewireRun").Device(tensorflow::DEVICE_CPU), RunOp);

}  // namespace
}  // namespace fusewire::tf
