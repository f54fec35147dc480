// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A session whose master is in its own process runs each step on the calling thread. TensorFlow's own makes a thread
// for each step, and two threads wait for each other. A step with a limit ends by it, even while it is being prepared
// (StepLimit). Otherwise it behaves as TensorFlow's session.
// Home: any thread. Owns: TensorFlow's session; shares the master's. Fails: as TensorFlow's.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tensorflow/core/distributed_runtime/call_options.h>
#include <tensorflow/core/distributed_runtime/master_env.h>
#include <tensorflow/core/distributed_runtime/master_session.h>
#include <tensorflow/core/public/session.h>
#include <tensorflow/core/public/session_options.h>
#include "fusewire/base/mutex.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/compress/compress_pass.h"

namespace fusewire::tf {

// Cancels a step whose time is up. TensorFlow cancels it once, which has no effect on a step that is still being
// prepared (placed, cut, registered with its workers): it then runs without a limit, perhaps forever. Here a step is
// cancelled again and again until it ends.
// Home: any thread; cancels on a thread of its own, `fusewire/limits`, one for the process.
class StepLimit {
 public:
  // The limit counts from now on; 0: none. `call` is the step's, and outlives this.
  StepLimit(tensorflow::CallOptions* call, int64_t limit_ms);
  ~StepLimit();  // no cancel after it
  StepLimit(const StepLimit&) = delete;
  StepLimit& operator=(const StepLimit&) = delete;

  bool HasPassed() const { return has_passed_.load(std::memory_order_acquire); }

 private:
  friend class LimitThread;

  tensorflow::CallOptions* const call_;
  const bool is_limited_;
  std::atomic<bool> has_passed_{false};
  int64_t due_ns_ = 0;  // the limit thread's
};

// Steps that end because a task is lost are repeated until the task is back, for limit_ns at most; 0: they are not.
void RepeatSteps(int64_t limit_ns);

// Sessions with this target are available from this process's master.
void OfferSessions(const std::string& target, tensorflow::MasterEnv* env);
bool HasSessionsFor(const std::string& target);

class Session final : public tensorflow::Session {
 public:
  // The target in `options` is available.
  static TfStatus Make(tensorflow::SessionOptions options, tensorflow::Session** out);
  ~Session() override;

  TfStatus Create(const tensorflow::GraphDef& graph) override;
  TfStatus Create(tensorflow::GraphDef&& graph) override;
  TfStatus Create(const tensorflow::RunOptions& options, const tensorflow::GraphDef& graph) override;
  TfStatus Create(const tensorflow::RunOptions& options, tensorflow::GraphDef&& graph) override;
  TfStatus Extend(const tensorflow::GraphDef& graph) override;
  TfStatus Extend(tensorflow::GraphDef&& graph) override;
  TfStatus Extend(const tensorflow::RunOptions& options, const tensorflow::GraphDef& graph) override;
  TfStatus Extend(const tensorflow::RunOptions& options, tensorflow::GraphDef&& graph) override;
  TfStatus Run(const std::vector<std::pair<std::string, tensorflow::Tensor>>& inputs,
               const std::vector<std::string>& fetches, const std::vector<std::string>& targets,
               std::vector<tensorflow::Tensor>* outputs) override;
  TfStatus Run(const tensorflow::RunOptions& options,
               const std::vector<std::pair<std::string, tensorflow::Tensor>>& inputs,
               const std::vector<std::string>& fetches, const std::vector<std::string>& targets,
               std::vector<tensorflow::Tensor>* outputs, tensorflow::RunMetadata* metadata) override;
  TfStatus PRunSetup(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                     const std::vector<std::string>& targets, std::string* handle) override;
  TfStatus PRun(const std::string& handle, const std::vector<std::pair<std::string, tensorflow::Tensor>>& inputs,
                const std::vector<std::string>& fetches, std::vector<tensorflow::Tensor>* outputs) override;
  TfStatus ListDevices(std::vector<tensorflow::DeviceAttributes>* devices) override;
  TfStatus Close() override;
  TfStatus MakeCallable(const tensorflow::CallableOptions& options, CallableHandle* handle) override;
  TfStatus RunCallable(CallableHandle handle, const std::vector<tensorflow::Tensor>& feeds,
                       std::vector<tensorflow::Tensor>* fetches, tensorflow::RunMetadata* metadata) override;
  TfStatus ReleaseCallable(CallableHandle handle) override;

 private:
  using MasterPtr = TfRef<tensorflow::MasterSession>;

  Session(std::unique_ptr<tensorflow::Session> inner, int64_t number, int64_t limit_ms, CompressOptions compress);
  TfStatus Created(const TfStatus& status);
  // Refuses a graph that lacks tables which the session's config names.
  template <class Call>
  TfStatus WithGraph(const tensorflow::GraphDef& graph, Call call);
  // Null: before it is created, and after it was closed.
  MasterPtr Master();
  void LetGo();

  const std::unique_ptr<tensorflow::Session> inner_;
  const int64_t number_;
  const int64_t limit_ms_;  // of each step without a limit of its own; 0: none
  const CompressOptions compress_;
  std::atomic<bool> has_tables_{false};  // those that it names
  Mutex mutex_;
  MasterPtr master_ FUSEWIRE_GUARDED_BY(mutex_);
};

}  // namespace fusewire::tf
