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

// Its output is the same in every step, and is never written. A constant with a control input may be in a branch, and
// dead.
bool IsConstant(const Node& node) {
  return !HasInputs(node) && (node.IsConstant() || node.type_string() == "VarHandleOp");
}

// With the error text of TensorFlow's executor.
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
  explicit Frame(size_t count) : slots(count) {}
  std::vector<Slot> slots;
  std::vector<TensorValue> inputs;
  std::vector<bool> is_dead;  // by operation, where there are branches
  OpKernelContext::Params params;
  tensorflow::checkpoint::TensorSliceReaderCacheWrapper reader_cache;
  tensorflow::StepStatsCollector* collector = nullptr;
};

Program::Program(Place place) : place_(std::move(place)) {}
Program::~Program() = default;

std::unique_ptr<Program> Program::Make(const Graph& graph, const Place& place, const KernelOf& kernel_of) {
  std::vector<Node*> order;
  // Equal graphs are run in equal orders.
  tensorflow::GetReversePostOrder(graph, &order, tensorflow::NodeComparatorName());
  std::unique_ptr<Program> program(new Program(place));
  std::map<const Node*, size_t> first_slot;
  size_t inputs_max = 0;
  for (const Node* node : order) {
    if (!node->IsOp()) continue;
    bool is_end = node->IsArg() || node->IsRetval();
    bool is_branch = node->IsSwitch() || node->IsMerge();
    if ((node->IsControlFlow() && !is_branch) || node->IsSend() || node->IsRecv()) return nullptr;
    program->has_branches_ = program->has_branches_ || is_branch;
    FUSEWIRE_CHECK(is_end || kernel_of(*node) != nullptr);
    if (!is_end && kernel_of(*node)->AsAsync() != nullptr) return nullptr;
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
    int index = 0;
    if (node->IsArg() || node->IsRetval()) {
      if (!tensorflow::GetNodeAttr(node->attrs(), "index", &index).ok() || index < 0) return nullptr;
      size_t at = static_cast<size_t>(index);
      if (node->IsArg()) {
        program->args_.resize(std::max(program->args_.size(), at + 1));
        program->args_[at] = slots[0];
      } else {
        program->rets_.resize(std::max(program->rets_.size(), at + 1));
        const Edge* from = nullptr;
        if (!node->input_edge(0, &from).ok()) return nullptr;
        program->rets_[at] = Result{first_slot[node], node->input_type(0), from->src()->name()};
      }
      continue;
    }
    OpKernel* kernel = kernel_of(*node);
    Tensor constant;
    if (IsConstant(*node) && program->Evaluate(kernel, &constant)) {
      program->constants_.push_back(Constant{constant, slots[0]});
      continue;
    }
    Operation operation{kernel,
                        &kernel->def(),
                        first_slot[node],
                        static_cast<size_t>(node->num_inputs()),
                        node->IsSwitch(),
                        node->IsMerge(),
                        node->op_def().allows_uninitialized_input(),
                        {},
                        {},
                        place.inventory == nullptr ? nullptr : Writes::Of(*node, place.inventory)};
    for (const Edge* edge : node->in_edges()) {
      auto before = operation_of.find(edge->src());
      if (program->has_branches_ && edge->IsControlEdge() && before != operation_of.end())
        operation.before.push_back(before->second);
    }
    FUSEWIRE_DCHECK(operation.first_slot + operation.slots <= program->slots_);
    FUSEWIRE_DCHECK(operation.slots <= program->attributes_.size());
    operation_of[node] = program->operations_.size();
    for (auto& output : slots) operation.outputs.push_back(Output{output.first, std::move(output.second)});
    program->operations_.push_back(std::move(operation));
  }
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
  auto frame = std::make_unique<Frame>(slots_);
  OpKernelContext::Params& params = frame->params;
  params.device = place_.device;
  params.resource_manager = place_.device->resource_manager();
  params.function_library = place_.library;
  params.runner = &place_.runner;
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

TfStatus Program::Run(PartRun* run) {
  std::unique_ptr<Frame> frame = TakeFrame();
  TfStatus status = Execute(run, frame.get());
  for (Slot& slot : frame->slots) slot.Clear();
  GiveBack(std::move(frame));
  return status;
}

TfStatus Program::Execute(PartRun* run, Frame* frame) {
  // As on the threads of TensorFlow's own pools: the same bits come out.
  FUSEWIRE_CHECK(run->args.size() >= args_.size());
  tensorflow::port::ScopedFlushDenormal flush;
  tensorflow::ResourceMgr* resources = place_.device->resource_manager();
  tensorflow::ScopedStepContainer container(run->step, [resources](const std::string& name) {
    resources->Cleanup(name).IgnoreError();  // fails if no resource was made
  });
  frame->params.step_id = run->step;
  frame->params.step_container = &container;
  frame->params.cancellation_manager = &run->cancellation;
  frame->params.stats_collector = frame->collector = run->collector.get();
  for (const Constant& constant : constants_) {
    for (size_t slot : constant.slots) frame->slots[slot].tensor = constant.tensor;
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
  for (size_t i = 0; i < operations_.size(); ++i) {
    const Operation& operation = operations_[i];
    if (run->cancellation.IsCancelled()) return absl::CancelledError("the step was cancelled");
    if (has_branches_ && IsDead(operation, *frame)) {
      frame->is_dead[i] = true;
      for (const Output& output : operation.outputs) {
        for (size_t slot : output.slots) frame->slots[slot].is_dead = true;
      }
      continue;
    }
    TfStatus status = Compute(operation, frame);
    if (!status.ok()) return tensorflow::AttachDef(status, *operation.def);
  }
  return Return(run, frame);
}

TfStatus Program::Return(PartRun* run, Frame* frame) {
  run->rets.resize(rets_.size());
  for (size_t i = 0; i < rets_.size(); ++i) {
    Slot& slot = frame->slots[rets_[i].slot];
    if (!slot.Dereference()) return Uninitialized(rets_[i].name);
    // A dead value is not used: at home it goes through a Switch.
    run->rets[i] = slot.is_dead ? Tensor(rets_[i].type, tensorflow::TensorShape({0})) : std::move(slot.tensor);
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
    bool wants_reference = tensorflow::IsRefType(operation.kernel->input_type(input));
    bool stays = slot.reference != nullptr && wants_reference;
    bool is_there = stays ? slot.IsInitialized() : slot.Dereference();
    if (!is_there && !operation.may_be_uninitialized) return Uninitialized(operation.kernel->requested_input(input));
    if (stays) {
      frame->inputs.emplace_back(slot.mutex, slot.reference);
    } else {
      frame->inputs.emplace_back(slot.is_dead ? nullptr : &slot.tensor);
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
  if (!context.status().ok()) return context.status();
  for (size_t i = 0; i < operation.slots; ++i) frame->slots[operation.first_slot + i].Clear();
  for (const Output& output : operation.outputs) {
    if (context.mutable_output(output.number) == nullptr && !operation.is_switch)
      return absl::InternalError(absl::StrCat("Missing ", output.number, "-th output from ", operation.def->name()));
  }
  Pass(operation, &context, frame);
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
