// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Answers one request for tensors: each as soon as it has been produced, all that are ready in one message.
// Home: the request's. Owns: itself, until the last answer; the tensors that wait to be sent.
// Fails: each tensor on its own; if the caller is gone, the requested steps are aborted, as gRPC does.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include <tensorflow/core/distributed_runtime/call_options.h>
#include <tensorflow/core/distributed_runtime/worker_env.h>
#include <tensorflow/core/framework/rendezvous.h>
#include "fusewire/base/mutex.h"
#include "fusewire/observe/event.h"
#include "fusewire/rpc/rpc.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/peer/fused.h"
#include "fusewire/tf/peer/keys.h"

namespace fusewire::tf {

class Provider final : public Mail {
 public:
  // The calls that it makes at the server's worker.
  struct Source {
    tensorflow::WorkerEnv* env;
    std::function<TfStatus(const tensorflow::Rendezvous::ParsedKey&, tensorflow::Device**)> find;
    std::function<void(int64_t)> abort_step;
  };
  // At home. `source` outlives it.
  static void Start(const Source& source, std::vector<Want> wants, rpc::Reply reply);

 private:
  struct Ready {
    size_t index;
    TfStatus status;
    tensorflow::Tensor tensor;
    bool is_dead;
  };
  Provider(const Source& source, std::vector<Want> wants, rpc::Reply reply);
  void Begin();
  void BeginEvents();
  void Find(size_t index);
  // Any thread.
  void Put(Ready ready);
  void Deliver() override;
  void Send(std::vector<Ready> ready);
  void Append(const Ready& ready);
  void EndEvent(const Ready& ready, int64_t now_ns);
  void OnUnwanted();
  void Unref();

  const Source& source_;
  std::vector<Want> wants_;
  rpc::Reply reply_;
  reactor::Reactor& home_;
  std::atomic<int> refs_{1};
  // At home.
  size_t unsent_;
  std::string head_;
  Buffers body_;
  std::vector<bool> sent_;
  std::vector<observe::Event> events_;  // of the wants; empty if nobody reads them
  Mutex mutex_;
  std::vector<Ready> ready_ FUSEWIRE_GUARDED_BY(mutex_);
  bool posted_ FUSEWIRE_GUARDED_BY(mutex_) = true;  // a Deliver that takes ready_ is under way
};

// Any thread. Waits for the tensor of a key and brings it into host memory; `fetched` is called once, on any thread.
using Fetched = std::function<void(const TfStatus&, const tensorflow::Tensor&, bool is_dead)>;
void FetchToHost(const Provider::Source& source, int64_t step, const tensorflow::Rendezvous::ParsedKey& key,
                 Fetched fetched);

// Answers one fused receive that came over gRPC, once all its tensors have been produced.
// Home: any thread. Owns: itself, until the last tensor; the tensors that are ready.
// Fails: with the first tensor that does. If the caller is gone, its step is aborted, as for TensorFlow's RecvTensor.
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
