// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/serve/program.h"

#include <algorithm>
#include <map>
#include <utility>

#include <absl/strings/str_cat.h>
#include <tensorflow/core/framework/node_def_util.h>
#include <tensorflow/core/graph/algorithm.h>
#include <tensorflow/core/platform/denormal.h>
#include <tensorflow/core/util/tensor_slice_reader_cache.h>
#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"
#include "fusewire/tf/receive/step_context.h"
#include "fusewire/tf/star/cut/grouping.h"

namespace fusewire::tf {

using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::OpKernel;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorValue;

namespace {

// Frames that are kept for later runs; if more runs than this are under way, the others make new ones.
constexpr size_t kFramesMax = 64;
// How long a thread stays with its run. A worker's step can't be cancelled before its thread has left it.
constexpr int64_t kStayNs = 20 * kMillisecondNs;

// Its output is the same in every step, and is never written. A constant with a control input may be in a branch, and
// dead.
bool IsConstant(const Node& node) {
  return !HasInputs(node) && (node.IsConstant() || node.type_string() == "VarHandleOp");
}

// The error has the text of TensorFlow's executor.
TfStatus Uninitialized(const std::string& name) {
  return absl::FailedPreconditionError(absl::StrCat("Attempting to use uninitialized value ", name));
}

}  // namespace

bool Program::Slot::IsInitialized() const {
  if (reference == nullptr) return true;
  tensorflow::tf_shared_lock lock(*mutex);
  return reference->IsInitialized();
}

bool Program::Slot::Dereference() {
  if (reference == nullptr) return true;
  tensorflow::tf_shared_lock lock(*mutex);
  tensor = *reference;
  reference = nullptr;
  return tensor.IsInitialized();
}

struct Program::Frame {
  explicit Frame(size_t count, size_t waiting) : slots(count), waited(waiting) {}
  std::vector<Slot> slots;
  std::vector<TensorValue> inputs;
  std::vector<bool> is_dead;  // by operation, where there are branches
  OpKernelContext::Params params;
  std::function<void(std::function<void()>)> runner;
  std::optional<tensorflow::ScopedStepContainer> container;  // of a part
  tensorflow::checkpoint::TensorSliceReaderCacheWrapper reader_cache;
  tensorflow::StepStatsCollector* collector = nullptr;
  PartRun* run = nullptr;
  std::function<void(const TfStatus&)> done;
  TfStatus status;
  // How far the operations are.
  enum class State : uint8_t { kToDo, kBegun, kEnded };
  std::vector<State> states;
  size_t first = 0;      // all before it have ended
  size_t under_way = 0;  // of those that are waited for
  // Of an operation that is waited for, while it is under way.
  struct Waited {
    std::vector<TensorValue> inputs;
    OpKernelContext::Params params;
    std::optional<OpKernelContext> context;
  };
  std::vector<Waited> waited;
  Arrivals arrivals;
  std::vector<size_t> ended;
  HoldTimes::Run held;
};

Program::Program(Place place) : place_(std::move(place)), pooled_(PooledDevice::Of(place_.device)) {
  if (pooled_ != nullptr) place_.device = pooled_.get();
}
Program::~Program() = default;

Program::Kind Program::KindOf(const Node& node, OpKernel* kernel) const {
  if (kernel->AsAsync() != nullptr) return Kind::kAsync;
  return place_.is_own && MayTakeLong(node.type_string()) ? Kind::kPooled : Kind::kInline;
}

bool Program::AddEnd(const Node& node, size_t first_slot, std::vector<size_t> slots) {
  int index = 0;
  if (!tensorflow::GetNodeAttr(node.attrs(), "index", &index).ok() || index < 0) return false;
  size_t at = static_cast<size_t>(index);
  if (node.IsArg()) {
    args_.resize(std::max(args_.size(), at + 1));
    args_[at] = std::move(slots);
    return true;
  }
  rets_.resize(std::max(rets_.size(), at + 1));
  const Edge* from = nullptr;
  if (!node.input_edge(0, &from).ok()) return false;
  rets_[at] = Result{first_slot, node.input_type(0), from->src()->name()};
  return true;
}

namespace {

// An order for graphs with operations that are waited for. So that these begin early, the operations before them come
// first, beginning with those of the one that has the fewest; the operations that wait for them come last.
class BeginEarly {
 public:
  BeginEarly(const std::vector<bool>& is_waited, const Graph& graph, std::vector<Node*>* order)
      : depth_(static_cast<size_t>(graph.num_node_ids()), 0), leads_to_(depth_.size(), kNothing) {
    for (const Node* node : *order) {
      for (const Node* before : node->in_nodes())
        depth_[Id(node)] = std::max(depth_[Id(node)], depth_[Id(before)] + (is_waited[Id(before)] ? 1 : 0));
    }
    for (const Node* node : *order) {
      if (is_waited[Id(node)]) Lead(node);
    }
    std::stable_sort(order->begin(), order->end(), [this](const Node* left, const Node* right) {
      if (depth_[Id(left)] != depth_[Id(right)]) return depth_[Id(left)] < depth_[Id(right)];
      return leads_to_[Id(left)] < leads_to_[Id(right)];
    });
  }

 private:
  static constexpr size_t kNothing = SIZE_MAX;
  static size_t Id(const Node* node) { return static_cast<size_t>(node->id()); }

  // Everything that `waited` waits for at its depth.
  void Lead(const Node* waited) {
    std::vector<const Node*> found{waited};
    std::vector<bool> is_found(depth_.size(), false);
    for (size_t i = 0; i < found.size(); ++i) {
      for (const Node* before : found[i]->in_nodes()) {
        if (is_found[Id(before)] || depth_[Id(before)] != depth_[Id(waited)]) continue;
        is_found[Id(before)] = true;
        found.push_back(before);
      }
    }
    for (const Node* node : found) leads_to_[Id(node)] = std::min(leads_to_[Id(node)], found.size());
  }

  std::vector<int> depth_;        // by node: the operations waited for on the way to it
  std::vector<size_t> leads_to_;  // by node: how many operations it takes to the first one that is waited for
};

}  // namespace

std::unique_ptr<Program> Program::Make(const Graph& graph, const Place& place, const KernelOf& kernel_of) {
  std::vector<Node*> order;
  // Equal graphs are run in equal orders.
  tensorflow::GetReversePostOrder(graph, &order, tensorflow::NodeComparatorName());
  std::unique_ptr<Program> program(new Program(place));
  std::vector<bool> is_waited(static_cast<size_t>(graph.num_node_ids()), false);
  bool waits = false;
  for (const Node* node : order) {
    if (!node->IsOp()) continue;
    bool is_branch = node->IsSwitch() || node->IsMerge();
    if (node->IsControlFlow() && !is_branch) return nullptr;
    if (!place.is_own && (node->IsSend() || node->IsRecv())) return nullptr;
    program->has_branches_ = program->has_branches_ || is_branch || node->IsRecv();
    if (node->IsArg() || node->IsRetval()) continue;
    OpKernel* kernel = kernel_of(*node);
    FUSEWIRE_CHECK(kernel != nullptr);
    const bool is_inline = program->KindOf(*node, kernel) == Kind::kInline;
    if (!is_inline && !place.is_own) return nullptr;
    is_waited[static_cast<size_t>(node->id())] = !is_inline;
    waits = waits || !is_inline;
  }
  if (waits) BeginEarly(is_waited, graph, &order);

  std::map<const Node*, size_t> first_slot;
  size_t inputs_max = 0;
  for (const Node* node : order) {
    if (!node->IsOp()) continue;
    first_slot[node] = program->slots_;
    program->slots_ += static_cast<size_t>(node->num_inputs());
    inputs_max =
        std::max({inputs_max, static_cast<size_t>(node->num_inputs()), static_cast<size_t>(node->num_outputs())});
  }
  program->attributes_.resize(inputs_max);

  std::map<const Node*, size_t> operation_of;
  for (const Node* node : order) {
    if (!node->IsOp()) continue;
    std::map<int, std::vector<size_t>> slots;
    for (const Edge* edge : node->out_edges()) {
      if (!edge->IsControlEdge())
        slots[edge->src_output()].push_back(first_slot[edge->dst()] + static_cast<size_t>(edge->dst_input()));
    }
    if (node->IsArg() || node->IsRetval()) {
      if (!program->AddEnd(*node, first_slot[node], std::move(slots[0]))) return nullptr;
      continue;
    }
    OpKernel* kernel = kernel_of(*node);
    Tensor constant;
    if (IsConstant(*node) && program->Evaluate(kernel, &constant)) {
      program->constants_.push_back(Constant{constant, slots[0]});
      continue;
    }
    const Kind kind = program->KindOf(*node, kernel);
    Operation operation{kernel,
                        &kernel->def(),
                        first_slot[node],
                        static_cast<size_t>(node->num_inputs()),
                        node->IsMerge(),
                        node->IsSend(),
                        node->IsSwitch() || node->IsRecv(),
                        std::any_of(node->input_types().begin(), node->input_types().end(), tensorflow::IsRefType),
                        node->op_def().allows_uninitialized_input(),
                        kind,
                        kind == Kind::kInline ? 0 : program->waiting_++,
                        {},
                        {},
                        {},
                        place.inventory == nullptr ? nullptr : Writes::Of(*node, place.inventory)};
    for (const Edge* edge : node->in_edges()) {
      auto before = operation_of.find(edge->src());
      if (before == operation_of.end()) continue;
      if (program->has_branches_ && edge->IsControlEdge()) operation.before.push_back(before->second);
      if (waits) operation.after.push_back(before->second);
    }
    FUSEWIRE_DCHECK(operation.first_slot + operation.slots <= program->slots_);
    FUSEWIRE_DCHECK(operation.slots <= program->attributes_.size());
    operation_of[node] = program->operations_.size();
    for (auto& output : slots) operation.outputs.push_back(Output{output.first, std::move(output.second)});
    program->operations_.push_back(std::move(operation));
  }
  program->hold_times_.emplace(program->operations_.size());
  return program;
}

bool Program::Evaluate(OpKernel* kernel, Tensor* tensor) {
  OpKernelContext::Params params;
  params.device = place_.device;
  params.resource_manager = place_.device->resource_manager();
  params.op_kernel = kernel;
  params.output_attr_array = attributes_.data();
  params.frame_iter = tensorflow::FrameAndIter(0, 0);
  OpKernelContext context(&params);
  place_.device->Compute(kernel, &context);
  if (!context.status().ok() || context.num_outputs() != 1) return false;
  TensorValue value = context.release_output(0);
  if (value.tensor == nullptr || value.is_ref()) return false;
  *tensor = *value.tensor;
  delete value.tensor;
  return true;
}

std::unique_ptr<Program::Frame> Program::TakeFrame() {
  {
    MutexLock lock(frames_mutex_);
    if (!frames_.empty()) {
      std::unique_ptr<Frame> frame = std::move(frames_.back());
      frames_.pop_back();
      return frame;
    }
  }
  auto frame = std::make_unique<Frame>(slots_, waiting_);
  for (const Constant& constant : constants_) {
    for (size_t slot : constant.slots) {
      frame->slots[slot].tensor = constant.tensor;
      frame->slots[slot].stays = true;
    }
  }
  frame->runner = place_.runner;
  OpKernelContext::Params& params = frame->params;
  params.device = place_.device;
  params.resource_manager = place_.device->resource_manager();
  params.function_library = place_.library;
  params.runner = &frame->runner;
  params.output_attr_array = attributes_.data();
  params.frame_iter = tensorflow::FrameAndIter(0, 0);
  params.slice_reader_cache = &frame->reader_cache;
  return frame;
}

void Program::GiveBack(std::unique_ptr<Frame> frame) {
  FUSEWIRE_DCHECK(frame->slots.size() == slots_);
  MutexLock lock(frames_mutex_);
  if (frames_.size() < kFramesMax) frames_.push_back(std::move(frame));
}

void Program::Run(PartRun* run, std::function<void(const TfStatus&)> done) {
  Frame* frame = TakeFrame().release();  // the run's own, until its End
  frame->done = std::move(done);
  Begin(run, frame);
  GoOn(frame, waiting_ == 0 ? 0 : Clock::Real()->NowNs() + kStayNs);
}

void Program::Begin(PartRun* run, Frame* frame) {
  FUSEWIRE_CHECK(run->args.size() >= args_.size());
  OpKernelContext::Params& params = frame->params;
  frame->run = run;
  frame->status = TfStatus();
  params.step_id = run->step;
  params.stats_collector = frame->collector = run->collector.get();
  if (run->outer != nullptr) {
    const tensorflow::Executor::Args& outer = *run->outer;
    params.start_time_usecs = outer.start_time_usecs;
    params.deadline = outer.deadline;
    params.rendezvous = outer.rendezvous;
    params.collective_executor = outer.collective_executor;
    params.session_state = outer.session_state;
    params.session_handle = outer.session_handle;
    params.tensor_store = outer.tensor_store;
    params.cancellation_manager = outer.cancellation_manager;
    params.step_container = outer.step_container;
    params.coordination_service_agent = outer.coordination_service_agent;
    PassSessionConfig(outer, &params, 0);
    frame->runner = outer.runner;
  } else {
    tensorflow::ResourceMgr* resources = place_.device->resource_manager();
    frame->container.emplace(run->step, [resources](const std::string& name) {
      resources->Cleanup(name).IgnoreError();  // fails if no resource was made
    });
    params.step_container = &*frame->container;
    params.cancellation_manager = &run->cancellation;
  }
  for (size_t i = 0; i < args_.size(); ++i) {
    Tensor arg = std::move(run->args[i]);
    for (size_t k = 0; k < args_[i].size(); ++k) {
      Slot& slot = frame->slots[args_[i][k]];
      if (k + 1 == args_[i].size()) {
        slot.tensor = std::move(arg);
      } else {
        slot.tensor = arg;
      }
    }
  }
  if (has_branches_) frame->is_dead.assign(operations_.size(), false);
  frame->states.assign(operations_.size(), Frame::State::kToDo);
  frame->first = 0;
}

// On the thread that has the run, which leaves it if nothing ends until then.
void Program::GoOn(Frame* frame, int64_t until_ns) {
  {
    // As on the threads of TensorFlow's own pools: the same bits come out.
    tensorflow::port::ScopedFlushDenormal flush;
    for (Sweep(frame); frame->under_way > 0; Sweep(frame)) {
      hold_times_->Learn(&frame->held);
      reactor::Reactor* loop = frame->run->loop == nullptr ? nullptr : frame->run->loop();
      if (!frame->arrivals.Await(loop, until_ns, &frame->ended)) return;
      Arrive(frame);
    }
  }
  End(frame);
}

// Does all that can be done now.
void Program::Sweep(Frame* frame) {
  size_t arrived = 0;
  do {
    arrived = 0;
    for (size_t i = frame->first; i < operations_.size() && frame->status.ok(); ++i) {
      if (frame->states[i] != Frame::State::kToDo || !IsReady(operations_[i], *frame)) continue;
      if (frame->params.cancellation_manager->IsCancelled()) {
        Fail(absl::CancelledError("the step was cancelled"), frame);
        break;
      }
      if (operations_[i].kind == Kind::kInline && StepThread::held() > 0 &&
          hold_times_->StartsBefore(i, StepThread::held(), &frame->held))
        StepThread::StartHeld();
      TfStatus status = Do(i, frame);
      if (!status.ok()) Fail(tensorflow::AttachDef(status, *operations_[i].def), frame);
      if (!frame->arrivals.any()) continue;
      frame->arrivals.Take(&frame->ended);
      arrived += frame->ended.size();
      Arrive(frame);
    }
    while (frame->first < operations_.size() && frame->states[frame->first] == Frame::State::kEnded) ++frame->first;
  } while (arrived > 0 && frame->status.ok());
}

bool Program::IsReady(const Operation& operation, const Frame& frame) const {
  return std::all_of(operation.after.begin(), operation.after.end(),
                     [&frame](size_t before) { return frame.states[before] == Frame::State::kEnded; });
}

TfStatus Program::Do(size_t index, Frame* frame) {
  const Operation& operation = operations_[index];
  const bool is_dead = has_branches_ && IsDead(operation, *frame);
  if (is_dead && !operation.is_send) {
    frame->is_dead[index] = true;
    for (size_t i = 0; i < operation.slots; ++i) frame->slots[operation.first_slot + i].Clear();
    for (const Output& output : operation.outputs) {
      for (size_t slot : output.slots) frame->slots[slot].is_dead = true;
    }
  } else {
    frame->params.is_input_dead = is_dead;
    if (operation.kind != Kind::kInline) return ComputeLater(index, frame);
    TF_RETURN_IF_ERROR(Compute(operation, frame));
  }
  frame->states[index] = Frame::State::kEnded;
  return TfStatus();
}

// The first error is the run's. Kernels under way are told to end, as TensorFlow's executor does.
void Program::Fail(const TfStatus& status, Frame* frame) {
  if (!frame->status.ok()) return;
  frame->status = status;
  if (frame->run->outer == nullptr && frame->under_way == 0) return;
  if (frame->params.rendezvous != nullptr) frame->params.rendezvous->StartAbort(status);
  if (frame->params.collective_executor != nullptr) frame->params.collective_executor->StartAbort(status);
  frame->params.cancellation_manager->StartCancelWithStatus(status);
}

void Program::End(Frame* frame) {
  FUSEWIRE_DCHECK(frame->under_way == 0);
  TfStatus status = frame->status.ok() ? Return(frame->run, frame) : frame->status;
  // Each operation has cleared its own.
  if (!status.ok()) {
    for (Slot& slot : frame->slots) slot.Clear();
  }
  frame->container.reset();
  auto done = std::move(frame->done);
  GiveBack(std::unique_ptr<Frame>(frame));
  done(status);
}

TfStatus Program::Return(PartRun* run, Frame* frame) {
  run->rets.resize(rets_.size());
  for (size_t i = 0; i < rets_.size(); ++i) {
    Slot& slot = frame->slots[rets_[i].slot];
    if (!slot.Dereference()) return Uninitialized(rets_[i].name);
    // A dead value is not used: at home it goes through a Switch.
    run->rets[i] = slot.is_dead ? Tensor(rets_[i].type, tensorflow::TensorShape({0})) : slot.tensor;
    slot.Clear();
  }
  return TfStatus();
}

// As in TensorFlow's executor: with any dead input; a Merge, with nothing else.
bool Program::IsDead(const Operation& operation, const Frame& frame) const {
  FUSEWIRE_DCHECK(frame.is_dead.size() == operations_.size());
  size_t dead = 0;
  for (size_t i = 0; i < operation.slots; ++i) dead += frame.slots[operation.first_slot + i].is_dead ? 1 : 0;
  if (operation.is_merge) return dead == operation.slots;
  return dead > 0 || std::any_of(operation.before.begin(), operation.before.end(),
                                 [&frame](size_t before) { return frame.is_dead[before]; });
}

TfStatus Program::FillInputs(const Operation& operation, Frame* frame) {
  frame->inputs.clear();
  for (size_t i = 0; i < operation.slots; ++i) {
    Slot& slot = frame->slots[operation.first_slot + i];
    int input = static_cast<int>(i);
    bool wants_reference = operation.takes_references && tensorflow::IsRefType(operation.kernel->input_type(input));
    bool stays = slot.reference != nullptr && wants_reference;
    bool is_there = stays ? slot.IsInitialized() : slot.Dereference();
    if (!is_there && !operation.may_be_uninitialized) return Uninitialized(operation.kernel->requested_input(input));
    if (stays) {
      frame->inputs.emplace_back(slot.mutex, slot.reference);
    } else {
      frame->inputs.emplace_back(slot.is_dead && !operation.is_send ? nullptr : &slot.tensor);
    }
  }
  return TfStatus();
}

TfStatus Program::Compute(const Operation& operation, Frame* frame) {
  TF_RETURN_IF_ERROR(FillInputs(operation, frame));
  FUSEWIRE_DCHECK(frame->inputs.size() == operation.slots);
  OpKernelContext::Params& params = frame->params;
  params.op_kernel = operation.kernel;
  params.inputs = absl::Span<const TensorValue>(frame->inputs.data(), frame->inputs.size());
  params.input_alloc_attrs = absl::Span<const tensorflow::AllocatorAttributes>(attributes_.data(), operation.slots);
  tensorflow::NodeExecStatsInterface* stats = nullptr;
  if (frame->collector != nullptr) stats = frame->collector->CreateNodeExecStats(operation.def);
  if (stats != nullptr) {
    stats->RecordExecutorStarted();
    stats->RecordComputeStarted();
  }
  OpKernelContext context(&params);
  place_.device->Compute(operation.kernel, &context);
  if (stats != nullptr) {
    stats->RecordComputeEnded();
    stats->RecordExecutorEnded();
    stats->Done(place_.device->name());
  }
  if (operation.writes != nullptr) {
    const int indices = operation.writes->indices();
    operation.writes->Mark(indices < 0 ? nullptr
                                       : &frame->slots[operation.first_slot + static_cast<size_t>(indices)].tensor);
  }
  return Finish(operation, &context, frame);
}

TfStatus Program::ComputeLater(size_t index, Frame* frame) {
  const Operation& operation = operations_[index];
  TF_RETURN_IF_ERROR(FillInputs(operation, frame));
  Frame::Waited& waited = frame->waited[operation.waiting];
  waited.inputs.swap(frame->inputs);
  waited.params = frame->params;
  waited.params.op_kernel = operation.kernel;
  waited.params.inputs = absl::Span<const TensorValue>(waited.inputs.data(), waited.inputs.size());
  waited.params.input_alloc_attrs =
      absl::Span<const tensorflow::AllocatorAttributes>(attributes_.data(), operation.slots);
  OpKernelContext* context = &waited.context.emplace(&waited.params);
  frame->states[index] = Frame::State::kBegun;
  ++frame->under_way;
  if (operation.kind == Kind::kAsync) {
    place_.device->ComputeAsync(operation.kernel->AsAsync(), context, [this, index, frame] { Ended(index, frame); });
    return TfStatus();
  }
  frame->runner([this, index, frame, context] {
    place_.device->Compute(operations_[index].kernel, context);
    Ended(index, frame);
  });
  return TfStatus();
}

// Any thread.
void Program::Ended(size_t index, Frame* frame) {
  if (!frame->arrivals.Add(index)) return;
  // It may be a reactor's thread, which must not compute.
  frame->runner([this, frame] {
    frame->arrivals.Take(&frame->ended);
    Arrive(frame);
    GoOn(frame, 0);
  });
}

void Program::Arrive(Frame* frame) {
  FUSEWIRE_DCHECK(frame->under_way >= frame->ended.size());
  for (size_t index : frame->ended) {
    const Operation& operation = operations_[index];
    std::optional<OpKernelContext>& context = frame->waited[operation.waiting].context;
    TfStatus status = Finish(operation, &*context, frame);
    context.reset();
    frame->states[index] = Frame::State::kEnded;
    --frame->under_way;
    if (!status.ok()) Fail(tensorflow::AttachDef(status, *operation.def), frame);
  }
}

// Hands its outputs on, once it has computed them.
TfStatus Program::Finish(const Operation& operation, OpKernelContext* context, Frame* frame) {
  if (!context->status().ok()) return context->status();
  for (size_t i = 0; i < operation.slots; ++i) frame->slots[operation.first_slot + i].Clear();
  for (const Output& output : operation.outputs) {
    if (context->mutable_output(output.number) == nullptr && !operation.may_lack_output)
      return absl::InternalError(absl::StrCat("Missing ", output.number, "-th output from ", operation.def->name()));
  }
  Pass(operation, context, frame);
  return TfStatus();
}

void Program::Pass(const Operation& operation, OpKernelContext* context, Frame* frame) {
  for (const Output& output : operation.outputs) {
    TensorValue value = context->release_output(output.number);
    if (value.tensor == nullptr) {  // the branch that is not taken
      for (size_t slot : output.slots) frame->slots[slot].is_dead = true;
      continue;
    }
    for (size_t k = 0; k < output.slots.size(); ++k) {
      Slot& slot = frame->slots[output.slots[k]];
      if (value.is_ref()) {
        slot.reference = value.tensor;
        slot.mutex = value.mutex_if_ref;
      } else if (k + 1 == output.slots.size()) {
        slot.tensor = std::move(*value.tensor);
      } else {
        slot.tensor = *value.tensor;
      }
    }
    if (!value.is_ref()) delete value.tensor;
  }
}

}  // namespace fusewire::tf
