// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The worker's end of a part: an operation that pushes its inputs to the parameter server and pulls its outputs, in one
// message each way. The part is placed there with the first step, and again whenever the server does not know it.
#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
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
#include "fusewire/tf/heads/calls.h"
#include "fusewire/tf/peer/marks.h"
#include "fusewire/tf/peer/peer.h"
#include "fusewire/tf/profile/profiler.h"
#include "fusewire/tf/receive/rendezvous.h"
#include "fusewire/tf/star/call/recording.h"

namespace fusewire::tf {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// The attempts to place a part in one step.
constexpr int kPlacedMax = 3;
static_assert(kPlacedMax > 0);
// How often a run goes on at a server that was restarted: it may be the run that kills it.
constexpr int kReturnsMax = 16;

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
  Again again FUSEWIRE_GUARDED_BY(mutex) = Again::kNever;
  Mark mark FUSEWIRE_GUARDED_BY(mutex);  // of its runs there
};
// shared_ptr: a call may outlive the kernel's session.
using PlacementPtr = std::shared_ptr<Placement>;

class PlaceCall final : public rpc::Call {
 public:
  using Placed = std::function<void(const TfStatus&, uint64_t id, Again again)>;
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
    if (is_sent_) body.push_back(Buffer::CopyOf(ConstBytes(placement_->piece.data(), placement_->piece.size())));
    repeats_.Begin(*channel_);
    GlobalCounters().Add(&Counters::calls_out);
    channel_->client().Start(this);
  }

 private:
  void OnDone(Status status) override {
    FUSEWIRE_AT_HOME(channel_->client().home());
    channel_->ReportStatus(status);
    // A part that is placed twice is one part.
    if (repeats_.IsAgain(*channel_, &status)) return Go();
    TfStatus end = ToTf(status);
    uint64_t id = 0;
    Again again = Again::kNever;
    if (status.ok()) {
      VarReader reader{ConstBytes(reply_head)};
      TfStatus read = ReadTfStatus(&reader, &end);
      if (!read.ok()) end = read;
      if (end.ok()) {
        const Status placed = DecodePlaced(&reader, &id, &again);
        if (!placed.ok()) end = absl::DataLossError(placed.cause());
      }
    }
    if (end.ok() && id == 0 && !is_sent_) {
      is_sent_ = true;
      Go();
      return;
    }
    if (end.ok() && id == 0) end = absl::InternalError("a parameter server does not take a part of a graph");
    FUSEWIRE_DCHECK(!end.ok() || id != 0);
    end = WithTarget(end, channel_->target(), "PlacePart");
    if (end.ok() && RecordsCalls()) RecordPlaced(channel_->address(), id, session_, placement_->fingerprint);
    placed_(end, id, again);
    delete this;
  }

  const ChannelPtr channel_;
  const PlacementPtr placement_;
  const std::string session_;
  const Placed placed_;
  std::string text_;
  bool is_sent_ = false;
  Repeats repeats_;
};

// The cancellation of a step, for one of its operations.
// Home: any thread. Owns: the hook, from Begin until End.
class StepCancel {
 public:
  // Null: the step can't be cancelled.
  explicit StepCancel(tensorflow::CancellationManager* manager) : manager_(manager) {}

  // `hook` is called on another thread if the step is cancelled before End. False: it has been cancelled already.
  template <class Hook>
  bool Begin(Hook hook) {
    if (manager_ == nullptr) return true;
    token_ = manager_->get_cancellation_token();
    const bool is_live = manager_->RegisterCallback(token_, [this, hook] {
      has_come_.store(true, std::memory_order_release);
      hook();
    });
    if (!is_live) manager_ = nullptr;
    return is_live;
  }
  // Waits while the hook runs.
  void End() {
    if (manager_ != nullptr) manager_->DeregisterCallback(token_);
  }
  bool has_come() const { return has_come_.load(std::memory_order_acquire); }

 private:
  tensorflow::CancellationManager* manager_;
  tensorflow::CancellationToken token_ = 0;
  std::atomic<bool> has_come_{false};
};

// The inputs of a run: an operation's, or copies of them for a repeated run, whose results are discarded.
class RunInputs {
 public:
  explicit RunInputs(OpKernelContext* context)
      : context_(context), step_(context->step_id()), cancellation_(context->cancellation_manager()) {}
  RunInputs Copy() const {
    RunInputs copy = *this;
    for (int i = 0; i < count(); ++i) copy.copies_.push_back(at(i));
    copy.context_ = nullptr;
    return copy;
  }
  int count() const { return context_ == nullptr ? static_cast<int>(copies_.size()) : context_->num_inputs(); }
  const Tensor& at(int i) const { return context_ == nullptr ? copies_[static_cast<size_t>(i)] : context_->input(i); }
  // Null for copies.
  OpKernelContext* context() const { return context_; }
  bool is_traced() const { return context_ != nullptr && context_->stats_collector() != nullptr; }
  int64_t step() const { return step_; }
  tensorflow::CancellationManager* cancellation() const { return cancellation_; }

 private:
  OpKernelContext* context_;
  int64_t step_;
  tensorflow::CancellationManager* cancellation_;
  std::vector<Tensor> copies_;
};

// The server's answer to a run, read as it comes in: its status, and the results, which land where the step wants them.
// Home: the call's. Owns: the results, until Finish.
class RunAnswer {
 public:
  // Null: the results are discarded.
  explicit RunAnswer(OpKernelContext* context) : context_(context) {
    if (context != nullptr) place_.device = static_cast<tensorflow::Device*>(context->device());
  }

  // `sizes` is null where there is no body.
  Status Read(ConstBytes head, const rpc::SegmentSizes* sizes) {
    VarReader reader(head);
    landings_.emplace(sizes, context_ == nullptr ? 0 : static_cast<size_t>(context_->num_outputs()));
    stats_.clear();
    TfStatus read = ReadTfStatus(&reader, &status_);
    if (!read.ok()) return Status::Corrupt(std::string(read.message()));
    if (context_ == nullptr) return Status::Ok();
    if (status_.ok()) {
      for (int i = 0; i < context_->num_outputs(); ++i) FUSEWIRE_TRY(landings_->Begin(&reader, place_));
      if (context_->stats_collector() != nullptr) stats_ = reader.Text().ToString();
    }
    if (!reader.ok()) return Status::Corrupt("a run's answer without some of its results");
    return landings_->EndOfMessage();
  }
  bool was_read() const { return landings_.has_value(); }
  // Another one will arrive.
  void Forget() { landings_.reset(); }
  // An earlier part of the step left values at the server, and they are not there.
  bool lacks_values() const { return !status_.ok() && status_.GetPayload(kValuesGone).has_value(); }
  pipe::Landing Where() { return context_ == nullptr ? pipe::Landing::Discard() : landings_->Where(); }

  // After all has landed: hands the results to the operation, or returns the error of the run at `task`.
  TfStatus Finish(const std::string& task) {
    // The status of a step names the task.
    if (!status_.ok()) return TfStatus(status_.code(), absl::StrCat("From ", task, ":\n", status_.message()));
    if (context_ == nullptr) return TfStatus();
    std::vector<Tensor> results;
    TfStatus end = landings_->Finish(place_, &results);
    FUSEWIRE_DCHECK(!end.ok() || results.size() == static_cast<size_t>(context_->num_outputs()));
    for (size_t i = 0; end.ok() && i < results.size(); ++i) {
      int index = static_cast<int>(i);
      if (results[i].dtype() != context_->expected_output_dtype(index))
        end = absl::DataLossError("a parameter server sent a tensor whose type differs from its part's");
      if (end.ok()) context_->set_output(index, std::move(results[i]));
    }
    if (!stats_.empty()) SaveStats();
    return end;
  }

 private:
  void SaveStats() {
    auto* collector = dynamic_cast<tensorflow::StepStatsCollector*>(context_->stats_collector());
    tensorflow::StepStats stats;
    if (collector == nullptr || !stats.ParseFromString(stats_)) return;
    for (const auto& device : stats.dev_stats()) {
      for (const auto& node : device.node_stats())
        collector->Save(device.device(), new tensorflow::NodeExecStats(node));
    }
  }

  OpKernelContext* const context_;
  TensorPlace place_;
  TfStatus status_;
  std::optional<TensorLandings> landings_;
  std::string stats_;
};

// A run as it is recorded, from its request until its results are there.
class RunRecord {
 public:
  // A run that is made again is one run.
  void Begin(const Mark& mark, int64_t step, const Buffers& body) {
    if (event_.has_begun()) return;
    bytes_in_ = bytes_out_ = 0;
    for (const Buffer& segment : body) bytes_out_ += segment.size();
    event_.Begin(observe::Kind::kRunOut, mark.tag, step, FlowOf(mark, step));
  }
  void Arrive(uint64_t bytes) {
    event_.Arrive();
    bytes_in_ = bytes;
  }
  void End(const TfStatus& status, const Placement& placement, OpKernelContext* context) {
    event_.Given(bytes_out_);
    event_.End(status.ok(), bytes_in_ + bytes_out_, [&](observe::EventFacts* facts) {
      facts->peer = ShortTask(placement.task);
      facts->name = placement.name;
      facts->bytes_out = bytes_out_;
      for (int i = 0; context != nullptr && status.ok() && i < context->num_outputs(); ++i) {
        if (const Tensor* output = context->mutable_output(i)) facts->bytes_in += output->TotalBytes();
      }
      if (!status.ok()) facts->error = status.ToString();
    });
  }

 private:
  observe::Event event_;
  uint64_t bytes_in_ = 0, bytes_out_ = 0;  // of its tensors, in segments of their own
};

// A ticket that stays open until the step's end: where the server has lost the run, it comes again with it; where a
// snapshot has the run, the server knows the ticket, and does not run it twice.
class HeldTicket {
 public:
  HeldTicket(TicketBookPtr book, const Ticket& ticket) : book_(std::move(book)), ticket_(ticket) {}
  ~HeldTicket() { book_->GiveBack(ticket_); }
  HeldTicket(const HeldTicket&) = delete;
  const Ticket& ticket() const { return ticket_; }

 private:
  const TicketBookPtr book_;
  const Ticket ticket_;
};

std::atomic<int> runs_under_way{0};  // of the process

// One step of one part: it finds the way, places the part if the server does not have it, and runs it.
class Running final : public rpc::Call {
 public:
  Running(PlacementPtr placement, RunInputs inputs, StepContext* step, tensorflow::StatusCallback done)
      : Call(kRunPart),
        placement_(std::move(placement)),
        inputs_(std::move(inputs)),
        step_(step),
        done_(std::move(done)),
        cancel_(inputs_.cancellation()),
        answer_(inputs_.context()) {}

  void Begin() {
    if (!cancel_.Begin([this] { OnCancel(); })) return End(Cancelled());
    channel_ = step_->KnownWay(placement_->task);
    if (channel_ != nullptr) return FindPart();
    Find([this](const TfStatus& status, ChannelPtr channel) { OnWay(status, std::move(channel)); });
  }

 private:
  static TfStatus Cancelled() { return absl::CancelledError("the step was cancelled"); }

  // Any thread.
  void OnCancel() {
    SearchPtr search;
    {
      MutexLock lock(mutex_);
      search = search_;
      if (placing_ != nullptr) placing_->Cancel();
    }
    if (search != nullptr) search->GiveUp(Cancelled());
    Cancel();
  }

  // Looks for the task.
  void Find(Routed found) {
    auto search = std::make_shared<Search>(std::move(found));
    PlacementPtr placement = placement_;  // which outlives this, as the search does
    StepContext* step = step_;
    {
      MutexLock lock(mutex_);
      search_ = search;
    }
    if (cancel_.has_come()) search->GiveUp(Cancelled());
    search->Begin([&](Routed routed) { step->RouteTo(placement->task, std::move(routed)); });
  }

  // The server is lost, and can be restarted with its state.
  bool MayReturn() const { return channel_->options().state != 0 && channel_->recovers() && !channel_->alive(); }

  // For how long, the peer knows. `why`: the step's error if it does not return, or without what it had.
  void AwaitReturn(const TfStatus& why) {
    lost_.why = why;
    Find([this](const TfStatus& status, ChannelPtr channel) { OnReturn(status, std::move(channel)); });
  }

  void OnReturn(const TfStatus& status, ChannelPtr channel) {
    if (absl::IsCancelled(status)) return End(status);
    const bool is_back = status.ok() && channel != nullptr && channel->options().state == channel_->options().state;
    if (!is_back) return End(lost_.why);
    const bool was_restarted = channel->options().incarnation != channel_->options().incarnation;
    if (was_restarted && ++lost_.returns > kReturnsMax) return End(lost_.why);
    channel_ = std::move(channel);
    lost_.repeats = Repeats();
    lost_.has_left_again = false;
    placed_ = 0;
    FindPart();
  }

  void OnWay(const TfStatus& status, ChannelPtr channel) {
    FUSEWIRE_DCHECK(channel_ == nullptr);  // it is looked for once
    if (status.ok() && channel == nullptr)
      return End(
          absl::UnavailableError(absl::StrCat("fusewire: ", placement_->task,
                                              " has no data port any more, and a part of this session's graph was to "
                                              "run there. It answers over gRPC only: was it restarted without import "
                                              "fusewire? A new session goes without.")));
    if (!status.ok()) return End(status);
    channel_ = std::move(channel);
    FindPart();
  }

  void FindPart() {
    uint64_t id = 0;
    Mark mark;
    {
      MutexLock lock(placement_->mutex);
      if (placement_->channel == channel_) id = placement_->id;
      mark = placement_->mark;
      lost_.again = placement_->again;
    }
    if (id != 0) return Go(id, mark);
    if (++placed_ > kPlacedMax)
      return End(absl::AbortedError("a parameter server forgets a part of a graph as soon as it is placed"));
    PlacePart();
  }

  void PlacePart() {
    auto* call =
        new PlaceCall(channel_, placement_, step_->session_handle(),
                      [this](const TfStatus& status, uint64_t id, Again again) { OnPlaced(status, id, again); });
    {
      MutexLock lock(mutex_);
      FUSEWIRE_DCHECK(placing_ == nullptr);
      placing_ = call;
      if (cancel_.has_come()) call->Cancel();
    }
    call->Go();
  }

  void OnPlaced(const TfStatus& status, uint64_t id, Again again) {
    {
      MutexLock lock(mutex_);
      FUSEWIRE_DCHECK(placing_ != nullptr);
      placing_ = nullptr;
    }
    if (!status.ok() && absl::IsUnavailable(status) && MayReturn()) return AwaitReturn(status);
    if (!status.ok()) return End(status);
    const std::string runner = ShortTask(placement_->task);
    const Mark mark = MarkRun(observe::Kind::kRunOut, placement_->own_task, runner, placement_->name, runner, id);
    lost_.again = again;
    {
      MutexLock lock(placement_->mutex);
      placement_->channel = channel_;
      placement_->id = id;
      placement_->again = again;
      placement_->mark = mark;
    }
    Go(id, mark);
  }

  void Go(uint64_t id, const Mark& mark) {
    if (cancel_.has_come()) return End(Cancelled());
    FUSEWIRE_DCHECK(id != 0);
    FUSEWIRE_DCHECK(body.empty());  // an earlier attempt has sent its body
    TraceMe trace([this] { return Traced("fusewire run part"); }, kTraceLevel);
    const bool is_first = text_.empty();
    // What is recorded is played again, more than once.
    const bool has_tickets = HasTickets(lost_.again) && channel_->recovers() && !RecordsCalls();
    if (has_tickets && lost_.ticket.number == 0) {
      lost_.book = channel_->tickets();
      lost_.ticket = lost_.book->Take();
    }
    lost_.part = id;
    lost_.mark = mark;
    text_.clear();
    text_.reserve(kUsualHeadBytes);
    AppendFixed64(&text_, id);
    AppendFixed64(&text_, static_cast<uint64_t>(inputs_.step()));
    text_.push_back(
        static_cast<char>((inputs_.is_traced() ? kTraced : 0) | (lost_.ticket.number != 0 ? kWithTicket : 0)));
    if (lost_.ticket.number != 0) AppendTicket(lost_.ticket, &text_);
    for (int i = 0; i < inputs_.count(); ++i) {
      TfStatus appended = AppendTensor(inputs_.at(i), &text_, &body);
      if (!appended.ok()) {
        body.clear();
        End(appended);
        return;
      }
    }
    head = text_;
    answer_.Forget();
    record_.Begin(mark, inputs_.step(), body);
    if (placement_->kept > 0 && is_first) step_->Leave(placement_->holders, placement_->kept);
    if (RecordsCalls()) RecordRun(channel_->address(), id, text_, body);
    lost_.repeats.Begin(*channel_);
    GlobalCounters().Add(&Counters::calls_out);
    step_->SetLoop(&channel_->client().home());
    bool is_only_one = runs_under_way.fetch_add(1, std::memory_order_acq_rel) == 0;
    if (StepThread::MayHold()) return StepThread::Hold(channel_, this);
    if (!is_only_one || !MayWait()) return channel_->client().Start(this);
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

  Result<pipe::Landing> Land(ConstBytes head_in, const rpc::SegmentSizes& sizes) override {
    record_.Arrive(sizes.total());
    FUSEWIRE_TRY(answer_.Read(head_in, &sizes));
    return answer_.Where();
  }

  void OnDone(Status status) override {
    FUSEWIRE_AT_HOME(channel_->client().home());
    channel_->ReportStatus(status);
    if (answered_ == nullptr) return Ended(std::move(status));
    answered_->Done(std::move(status));
  }

  void Ended(Status status) {
    const int were_under_way = runs_under_way.fetch_sub(1, std::memory_order_acq_rel);
    FUSEWIRE_CHECK(were_under_way > 0);
    TraceMe trace([this] { return Traced("fusewire part ran"); }, kTraceLevel);
    const bool may_repeat = lost_.again == Again::kFreely || lost_.ticket.number != 0;
    if (may_repeat && lost_.repeats.IsAgain(*channel_, &status)) return Go(lost_.part, lost_.mark);
    if (may_repeat && HasLost(*channel_, status) && MayReturn())
      return AwaitReturn(WithTarget(ToTf(status), channel_->target(), "RunPart"));
    if (status.code() == Code::kApplication && status.app_code() == kAnswerGone)
      return End(WithTarget(absl::AbortedError(absl::StrCat("fusewire: ", placement_->task,
                                                            " has run a part of the step, and its answer was lost "
                                                            "with the connection; answers of more than 64 KiB are not "
                                                            "kept; see: fusewire explain elastic#a-lost-connection")),
                            channel_->target(), "RunPart"));
    if (status.code() == Code::kApplication && status.app_code() == kUnknownPart) {
      {
        MutexLock lock(placement_->mutex);
        if (placement_->channel == channel_) placement_->channel = nullptr;
      }
      record_.End(ToTf(status), *placement_, inputs_.context());
      FindPart();
      return;
    }
    if (status.ok() && !answer_.was_read()) status = answer_.Read(ConstBytes(reply_head), nullptr);
    if (!status.ok()) return End(WithTarget(ToTf(status), channel_->target(), "RunPart"));
    TfStatus end = answer_.Finish(placement_->task);
    if (!end.ok() && answer_.lacks_values() && MayLeaveAgain()) return LeaveAgain(end);
    if (end.ok() && placement_->taken > 0) step_->Taken(placement_->taken);
    const bool may_be_wanted_again = lost_.book != nullptr && placement_->kept > 0 && channel_->options().state != 0;
    if (end.ok() && may_be_wanted_again) KeepLeaver();
    End(end);
  }

  // If the server loses the values that this run has left, the run is repeated.
  void KeepLeaver() {
    if (inputs_.context() == nullptr) return;  // it is kept already
    StepContext::Leaver leaver{placement_->task, placement_->holders, placement_->taken > 0, nullptr};
    // One that only reads is simply another run. shared_ptr: std::function wants copies.
    std::shared_ptr<HeldTicket> held;
    if (lost_.again == Again::kTicket)
      held = std::make_shared<HeldTicket>(std::exchange(lost_.book, nullptr), lost_.ticket);
    leaver.again = [placement = placement_, inputs = inputs_.Copy(), step = step_,
                    held](tensorflow::StatusCallback done) {
      auto* running = new Running(placement, inputs, step, std::move(done));
      if (held != nullptr) running->lost_.ticket = held->ticket();
      running->Begin();
    };
    step_->KeepLeaver(std::move(leaver));
  }

  // Once for each return of the server.
  bool MayLeaveAgain() const {
    return inputs_.context() != nullptr && channel_->options().state != 0 && !lost_.has_left_again;
  }

  // `why`: the step's error if that does not help. The server did not run the part: this was the end of the ticket.
  void LeaveAgain(const TfStatus& why) {
    lost_.why = why;
    lost_.has_left_again = true;
    GiveTicketBack();
    lost_.leavers = step_->LeaversOf(placement_->task);
    std::reverse(lost_.leavers.begin(), lost_.leavers.end());
    LeaveNext();
  }

  void LeaveNext() {
    if (lost_.leavers.empty()) return FindPart();
    auto again = std::move(lost_.leavers.back().again);
    lost_.leavers.pop_back();
    again([this](const TfStatus& status) {
      if (!status.ok()) return End(absl::IsCancelled(status) ? status : lost_.why);
      LeaveNext();
    });
  }

  std::string Traced(const char* name) const {
    return TraceMeEncode(name, {{"peer", ShortTask(placement_->task)}, {"step", inputs_.step()}});
  }

  void GiveTicketBack() {
    if (lost_.book != nullptr) lost_.book->GiveBack(lost_.ticket);
    lost_.book = nullptr;
    lost_.ticket = Ticket();
  }

  // By value: it may be a member's.
  void End(TfStatus status) {
    cancel_.End();
    GiveTicketBack();
    record_.End(status, *placement_, inputs_.context());
    FUSEWIRE_DCHECK(done_ != nullptr);  // it ends once
    auto done = std::move(done_);
    delete this;
    done(status);
  }

  const PlacementPtr placement_;
  const RunInputs inputs_;
  StepContext* const step_;
  tensorflow::StatusCallback done_;
  StepCancel cancel_;
  Mutex mutex_;
  // Of the task, the last; null where the way was known. shared_ptr: what it asks holds it too.
  SearchPtr search_ FUSEWIRE_GUARDED_BY(mutex_);
  PlaceCall* placing_ FUSEWIRE_GUARDED_BY(mutex_) = nullptr;
  ChannelPtr channel_;
  int placed_ = 0;
  // For a run whose connection is lost.
  struct Lost {
    uint64_t part = 0;  // its number at the server
    Mark mark;
    Again again = Again::kNever;  // what may be done then
    Ticket ticket;
    TicketBookPtr book;  // of the ticket
    Repeats repeats;
    TfStatus why;  // while its return is awaited, or other parts run again
    int returns = 0;
    bool has_left_again = false;
    std::vector<StepContext::Leaver> leavers;  // that are to run again, the next one last
  } lost_;
  std::string text_;                         // empty until the first attempt
  reactor::Completion* answered_ = nullptr;  // of the thread that waits for this call
  RunRecord record_;
  RunAnswer answer_;
};

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
    auto end = [context, done = std::move(done)](const TfStatus& status) {
      if (!status.ok()) context->SetStatus(status);
      done();
    };
    (new Running(placement_, RunInputs(context), &rendezvous->step(), std::move(end)))->Begin();
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
