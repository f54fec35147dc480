// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Sends the results of a run that later parts need to the task that keeps them: this one, or another parameter server.
// Home: any thread. Owns: nothing; a run's end holds the calls under way. Fails: through `done`, with the first server
// that can't be reached.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <tensorflow/core/distributed_runtime/worker_env.h>

#include "fusewire/rpc/rpc.h"
#include "fusewire/tf/bridge/tensor.h"
#include "fusewire/tf/star/serve/part.h"
#include "fusewire/tf/star/serve/store.h"

namespace fusewire::tf {

// Takes the kept results from `run`, and leaves those for the worker. Calls `done` once: here, if all stay here.
void KeepResults(tensorflow::WorkerEnv* env, const Part& part, const std::string& session, PartRun* run,
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
  std::unique_ptr<TensorLandings> landings_;
};

}  // namespace fusewire::tf
