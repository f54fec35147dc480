// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Answers one fused receive that came over gRPC, once all its tensors have been produced.
// Home: any thread. Owns: itself, until the last tensor; the tensors that are ready.
// Fails: with the first tensor that does. If the caller is gone, its step is aborted, as for TensorFlow's RecvTensor.
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include <tensorflow/core/distributed_runtime/call_options.h>
#include "fusewire/base/mutex.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/peer/fused.h"
#include "fusewire/tf/provide/provider.h"

namespace fusewire::tf {

class FusedProvider {
 public:
  using Done = std::function<void(const TfStatus&, const tensorflow::Tensor& answer)>;
  // Any thread. `source` outlives it; `options` lives until `done`.
  static void Start(const Provider::Source& source, tensorflow::CallOptions* options, int64_t step, ParsedKeys keys,
                    Done done);

 private:
  FusedProvider(const Provider::Source& source, tensorflow::CallOptions* options, int64_t step, ParsedKeys keys,
                Done done);
  void Begin();
  void Put(size_t index, const TfStatus& status, const tensorflow::Tensor& tensor, bool is_dead);
  void End(const TfStatus& status, const tensorflow::Tensor& answer);
  TfStatus GiveBack(const std::vector<FusedItem>& items);
  void EndWithAll();
  void Leave();

  const Provider::Source& source_;
  tensorflow::CallOptions* const options_;
  const int64_t step_;
  const ParsedKeys keys_;
  Done done_;
  std::atomic<size_t> left_;  // each tensor, and Begin
  Mutex mutex_;
  std::vector<FusedItem> items_ FUSEWIRE_GUARDED_BY(mutex_);
  bool has_failed_ FUSEWIRE_GUARDED_BY(mutex_) = false;
};

}  // namespace fusewire::tf
