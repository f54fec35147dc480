// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Sends the results of a run that later parts need to the task that keeps them: this one, or another parameter server.
// Home: any thread. Owns: nothing; a run's end holds the calls under way. Fails: through `done`, with the first server
// that can't be reached.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <tensorflow/core/distributed_runtime/worker_env.h>
#include <tensorflow/core/framework/tensor.h>
#include "fusewire/base/mutex.h"
#include "fusewire/rpc/rpc.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/bridge/tensor.h"
#include "fusewire/tf/star/serve/part.h"

namespace fusewire::tf {

struct KeptValue {
  uint32_t number = 0;  // in its graph
  uint32_t takers = 0;
  tensorflow::Tensor tensor;
};

// Values that stay on a parameter server between two parts of a step, or come from another server, without passing the
// worker. Each is taken as often as it was declared when it was kept; values that remain when a step fails are dropped
// with the step, or, if its worker is gone, with the session. Home: any thread. Owns: the values. Fails: Take, if a
// value is missing: this server is not the one that kept it.
class StepStore {
 public:
  void Keep(int64_t step, const std::string& session, std::vector<KeptValue> values);
  // Fills (*args)[first] and those behind it.
  TfStatus Take(int64_t step, const std::vector<uint32_t>& numbers, size_t first,
                std::vector<tensorflow::Tensor>* args);
  void Drop(int64_t step);
  void DropSession(const std::string& session);
  // Of all steps, for a server that takes the task. Fails if one can't be copied.
  TfStatus Save(std::string* values);
  TfStatus Load(const std::string& values);
  size_t steps();  // that have values here

 private:
  struct Step {
    std::string session;
    size_t left = 0;
    std::unordered_map<uint32_t, KeptValue> values;  // by number: a peer chooses those, and pays for no gaps
  };

  // Steps have random numbers: two homes seldom need the same shard at once.
  struct alignas(64) Drawer {
    Mutex mutex;
    std::unordered_map<int64_t, Step> steps FUSEWIRE_GUARDED_BY(mutex);
  };
  Drawer& DrawerOf(int64_t step) { return drawers_[static_cast<uint64_t>(step) % drawers_.size()]; }

  std::array<Drawer, 32> drawers_;
};

// Takes the kept results from `run`, and leaves those for the worker. Calls `done` once: here, if all stay here.
void KeepResults(tensorflow::WorkerEnv* env, const PartEnds& ends, const std::string& session, PartRun* run,
                 StepStore* store, std::function<void(const TfStatus&)> done);

// Values that another parameter server sends.
class IncomingValues final : public rpc::RequestSink {
 public:
  // `sizes` is null where there is no body.
  Status Read(tensorflow::WorkerEnv* env, ConstBytes head, const rpc::SegmentSizes* sizes);
  pipe::Landing Where() override { return landings_->Where(); }
  TfStatus Store(StepStore* store);
  const std::string& session() const { return session_; }

 private:
  std::string session_;
  int64_t step_ = 0;
  TensorPlace place_;
  std::vector<KeptValue> values_;
  std::optional<TensorLandings> landings_;  // once they are read
};

}  // namespace fusewire::tf
