// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A worker's own graph as a list (star/serve/program.h), in the place of TensorFlow's executor: the thread that called
// Session.run runs the step itself. Only for graphs that receive nothing from other tasks by themselves, in sessions
// whose master is in this process; loops, and steps that are traced, stay with the executor. So does a graph whose
// steps are faster there: both ways are timed, in turn, at first and now and then. Home: any thread; many steps at
// once. Owns: the graph's executor, and the list with its kernels. Fails: as the executor; a list that can't be made,
// with a line in the log.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <tensorflow/core/common_runtime/executor.h>
#include <tensorflow/core/framework/op_kernel.h>
#include "fusewire/base/mutex.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/bridge/graphs.h"
#include "fusewire/tf/receive/step_context.h"
#include "fusewire/tf/star/serve/program.h"

namespace fusewire::tf {

// kMeasured: where it is faster.
enum class ListUse { kMeasured, kAlways, kNever };

// Which of two ways is faster. Both are taken in turn, some steps each, and then the faster one until the next look.
// Home: any thread. Owns: the times.
class FasterWay {
 public:
  enum class Way : uint8_t { kExecutor, kList };
  struct Choice {
    Way way = Way::kExecutor;
    bool is_timed = false;
  };
  Choice Next();
  // Of a step that was chosen to be timed.
  void Took(Way way, int64_t ns);
  // Nothing is measured any more.
  void Keep(Way way);

 private:
  static constexpr int kFirstSteps = 2;  // not timed: they place parts and learn what is received
  static constexpr size_t kSamples = 20;
  // The first steps of a job say little: the second look is soon, and each pause is ten times the one before.
  static constexpr int64_t kFirstPause = 200;
  static constexpr int64_t kLongestPause = 20'000;

  void Decide() FUSEWIRE_REQUIRES(mutex_);

  Mutex mutex_;
  int64_t steps_ FUSEWIRE_GUARDED_BY(mutex_) = 0;            // that were chosen to be timed
  int64_t pause_ FUSEWIRE_GUARDED_BY(mutex_) = kFirstPause;  // in steps, until the next look
  int first_ FUSEWIRE_GUARDED_BY(mutex_) = kFirstSteps;
  std::vector<int64_t> times_[2] FUSEWIRE_GUARDED_BY(mutex_);
  // Read by each step: the way, or that a look is under way.
  enum class State : int { kLooking, kExecutor, kList };
  std::atomic<State> state_{State::kLooking};
  std::atomic<int64_t> left_{0};  // steps until the next look
};

class StepList final : public tensorflow::Executor {
 public:
  // `usual` runs what the list can't. Null: the graph is not one for a list, and `usual` is unchanged.
  static std::unique_ptr<tensorflow::Executor> Wrap(ListUse use, const RegisteredGraph& graph,
                                                    const std::string& session,
                                                    std::unique_ptr<tensorflow::Executor> usual);
  ~StepList() override;

 private:
  StepList(ListUse use, const RegisteredGraph& graph, const std::string& session,
           std::unique_ptr<tensorflow::Executor> usual);
  void RunAsyncInternal(const Args& args, DoneCallback done) override;
  // Makes the list at the first step. Null: the graph can't be run as one.
  Program* List(const Args& args);
  void Make(const Args& args) FUSEWIRE_REQUIRES(mutex_);
  TfStatus MakeKernels(std::vector<tensorflow::OpKernel*>* by_node) FUSEWIRE_REQUIRES(mutex_);
  bool IsShared(const std::string& op) const;

  const RegisteredGraph graph_;
  const std::string session_;  // its handle
  const std::unique_ptr<tensorflow::Executor> usual_;
  FasterWay faster_;
  Mutex mutex_;
  bool is_made_ FUSEWIRE_GUARDED_BY(mutex_) = false;
  std::vector<tensorflow::OpKernel*> kernels_ FUSEWIRE_GUARDED_BY(mutex_);
  std::unique_ptr<Program> program_ FUSEWIRE_GUARDED_BY(mutex_);
  std::atomic<Program*> list_{nullptr};  // once made
};

}  // namespace fusewire::tf
