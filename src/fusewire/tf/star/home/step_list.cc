// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/home/step_list.h"

#include <algorithm>
#include <utility>

#include <absl/strings/str_cat.h>
#include <tensorflow/core/framework/node_def_util.h>
#include <tensorflow/core/framework/op_segment.h>
#include <tensorflow/core/platform/logging.h>
#include "fusewire/base/clock.h"
#include "fusewire/tf/profile/profiler.h"
#include "fusewire/tf/receive/rendezvous.h"

namespace fusewire::tf {

using tensorflow::Node;
using tensorflow::OpKernel;

namespace {

// Between equal ways the list wins: it takes less processor time.
constexpr double kListBonus = 1.05;

// Loops, and values that other tasks send by themselves, for which a list would wait while the task that sends them may
// not have begun.
bool IsForList(const tensorflow::Graph& graph) {
  for (const Node* node : graph.op_nodes()) {
    if (node->IsControlFlow() && !node->IsSwitch() && !node->IsMerge()) return false;
    if (node->IsArg() || node->IsRetval()) return false;
    if (!node->IsSend() && !node->IsRecv()) continue;
    bool is_client = false;
    if (!tensorflow::TryGetNodeAttr(node->attrs(), "client_terminated", &is_client) || !is_client) return false;
  }
  return true;
}

// A run by a list, until its end.
struct ListRun {
  PartRun run;
  tensorflow::Executor::Args args;
};

}  // namespace

FasterWay::Choice FasterWay::Next() {
  switch (state_.load(std::memory_order_acquire)) {
    case State::kExecutor:
    case State::kList:
      if (left_.fetch_sub(1, std::memory_order_relaxed) > 0)
        return Choice{state_.load(std::memory_order_acquire) == State::kList ? Way::kList : Way::kExecutor, false};
      break;
    case State::kLooking: break;
  }
  MutexLock lock(mutex_);
  state_.store(State::kLooking, std::memory_order_release);
  if (first_ > 0) {
    --first_;
    return Choice{};
  }
  return Choice{steps_++ % 2 == 0 ? Way::kList : Way::kExecutor, true};
}

void FasterWay::Took(Way way, int64_t ns) {
  MutexLock lock(mutex_);
  if (state_.load(std::memory_order_acquire) != State::kLooking) return;  // of the last look
  times_[static_cast<size_t>(way)].push_back(ns);
  if (times_[0].size() >= kSamples && times_[1].size() >= kSamples) Decide();
}

void FasterWay::Keep(Way way) {
  left_.store(INT64_MAX, std::memory_order_relaxed);
  state_.store(way == Way::kList ? State::kList : State::kExecutor, std::memory_order_release);
}

void FasterWay::Decide() {
  int64_t medians[2];
  for (size_t i = 0; i < 2; ++i) {
    std::vector<int64_t>& times = times_[i];
    auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    medians[i] = *middle;
    times.clear();
  }
  const auto executor = static_cast<double>(medians[static_cast<size_t>(Way::kExecutor)]);
  const auto list = static_cast<double>(medians[static_cast<size_t>(Way::kList)]);
  left_.store(pause_, std::memory_order_relaxed);
  pause_ = std::min(10 * pause_, kLongestPause);
  state_.store(list <= executor * kListBonus ? State::kList : State::kExecutor, std::memory_order_release);
  VLOG(1) << absl::StrCat("fusewire: a step takes ", medians[0] / kMicrosecondNs, " us in the executor, ",
                          medians[1] / kMicrosecondNs, " us as a list");
}

std::unique_ptr<tensorflow::Executor> StepList::Wrap(ListUse use, const RegisteredGraph& graph,
                                                     const std::string& session,
                                                     std::unique_ptr<tensorflow::Executor> usual) {
  if (use == ListUse::kNever) return usual;
  if (graph.device->device_type() != tensorflow::DEVICE_CPU || !IsForList(*graph.graph)) return usual;
  return std::unique_ptr<tensorflow::Executor>(new StepList(use, graph, session, std::move(usual)));
}

StepList::StepList(ListUse use, const RegisteredGraph& graph, const std::string& session,
                   std::unique_ptr<tensorflow::Executor> usual)
    : graph_(graph), session_(session), usual_(std::move(usual)) {
  if (use == ListUse::kAlways) faster_.Keep(FasterWay::Way::kList);
}

StepList::~StepList() {
  MutexLock lock(mutex_);
  program_.reset();
  for (OpKernel* kernel : kernels_) {
    if (!IsShared(kernel->type_string())) delete kernel;
  }
}

// The kernels with state are the session's, and the executor's, too.
bool StepList::IsShared(const std::string& op) const {
  return tensorflow::OpSegment::ShouldOwnKernel(graph_.library, op);
}

void StepList::RunAsyncInternal(const Args& args, DoneCallback done) {
  FasterWay::Choice choice;
  Program* list = nullptr;
  // The executor writes what traces and profiles show of kernels.
  const bool is_traced = args.stats_collector != nullptr || TraceMe::Active(kTraceLevel);
  if (StepThread::IsHere() && !is_traced) {
    choice = faster_.Next();
    if (choice.way == FasterWay::Way::kList) list = List(args);
    if (list == nullptr && choice.way == FasterWay::Way::kList) {
      faster_.Keep(FasterWay::Way::kExecutor);
      choice = FasterWay::Choice{};
    }
  }
  if (choice.is_timed) {
    done = [this, way = choice.way, begun_ns = Clock::Real()->NowNs(), done = std::move(done)](const TfStatus& status) {
      if (status.ok()) faster_.Took(way, Clock::Real()->NowNs() - begun_ns);
      done(status);
    };
  }
  if (list == nullptr) return usual_->RunAsync(args, std::move(done));
  auto* run = new ListRun{{}, args};
  run->run.step = args.step_id;
  run->run.outer = &run->args;
  run->run.loop = [step = dynamic_cast<Rendezvous*>(args.rendezvous)] {
    return step == nullptr ? nullptr : step->step().loop();
  };
  list->Run(&run->run, [run, done = std::move(done)](const TfStatus& status) {
    delete run;
    done(status);
  });
}

Program* StepList::List(const Args& args) {
  Program* list = list_.load(std::memory_order_acquire);
  if (list != nullptr) return list;
  MutexLock lock(mutex_);
  if (!is_made_) Make(args);
  return program_.get();
}

void StepList::Make(const Args& args) {
  is_made_ = true;
  std::vector<OpKernel*> by_node(static_cast<size_t>(graph_.graph->num_node_ids()), nullptr);
  TfStatus status = MakeKernels(&by_node);
  if (!status.ok()) {
    LOG(INFO) << "fusewire: a worker's graph is run by TensorFlow's executor: " << status.message();
    return;
  }
  Program::Place place;
  place.device = graph_.device;
  place.library = graph_.library;
  place.runner = args.runner;
  place.is_own = true;
  program_ = Program::Make(*graph_.graph, place,
                           [&by_node](const Node& node) { return by_node[static_cast<size_t>(node.id())]; });
  list_.store(program_.get(), std::memory_order_release);
}

TfStatus StepList::MakeKernels(std::vector<OpKernel*>* by_node) {
  for (const Node* node : graph_.graph->op_nodes()) {
    OpKernel*& kernel = (*by_node)[static_cast<size_t>(node->id())];
    if (IsShared(node->type_string())) {
      TF_RETURN_IF_ERROR(graph_.device->op_segment()->FindOrCreate(
          session_, node->name(), &kernel,
          [this, node](OpKernel** made) { return graph_.library->CreateKernel(node->properties(), made); }));
    } else {
      TF_RETURN_IF_ERROR(graph_.library->CreateKernel(node->properties(), &kernel));
    }
    kernels_.push_back(kernel);
  }
  return TfStatus();
}

}  // namespace fusewire::tf
