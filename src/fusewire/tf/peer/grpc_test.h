// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// For tests: the gRPC way to a task. What is asked over it stands there until the test answers.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tensorflow/core/distributed_runtime/call_options.h>
#include <tensorflow/core/distributed_runtime/coordination/coordination_client.h>
#include <tensorflow/core/distributed_runtime/eager/eager_client.h>
#include <tensorflow/core/distributed_runtime/tensor_coding.h>
#include <tensorflow/core/distributed_runtime/worker_cache.h>
#include <tensorflow/core/distributed_runtime/worker_interface.h>
#include "fusewire/tf/peer/peer.h"

namespace fusewire::tf {

class FakeWorker : public tensorflow::WorkerInterface {
 public:
  struct Asked {
    const tensorflow::LoggingRequest* request;
    tensorflow::LoggingResponse* response;
    tensorflow::StatusCallback done;
  };
  // A call to a task that is lost, until it is back.
  struct Awaiting {
    int64_t limit_ms;
    bool fail_fast;
    tensorflow::StatusCallback done;
  };
  struct Receiving {
    tensorflow::CallOptions* options;
    const tensorflow::RecvTensorRequest* request;
    tensorflow::TensorResponse* response;
    tensorflow::StatusCallback done;
    bool is_cancelled = false;
  };
  ~FakeWorker() override = default;

  // The oldest question for the data port.
  void Answer(const PortWords& words) {
    Asked first = Take();
    EXPECT_TRUE(PortWords::IsAsked(*first.request));
    words.Answer(first.response);
    first.done(TfStatus());
  }
  void Answer(const TfStatus& status) { Take().done(status); }
  // A receive, whichever.
  void Bring(size_t index, const tensorflow::Tensor& tensor) {
    tensorflow::RecvTensorResponse response;
    tensor.AsProtoTensorContent(response.mutable_tensor());
    EXPECT_TRUE(receiving[index].response->InitFrom(&response).ok());
    End(index, TfStatus());
  }
  void End(size_t index, const TfStatus& status) {
    receiving[index].options->ClearCancelCallback();
    receiving[index].done(status);
  }

  // The oldest call that waits for the task.
  void AnswerStatus(const TfStatus& status) {
    Awaiting first = std::move(awaiting.front());
    awaiting.pop_front();
    first.done(status);
  }

  std::deque<Asked> asked;
  std::deque<Awaiting> awaiting;
  std::vector<std::string> sessions;  // that were created, in order
  std::vector<tensorflow::RegisterGraphRequest> graphs;
  TfStatus says;                    // to sessions and graphs
  std::deque<Receiving> receiving;  // all, those that have ended too

 private:
  using Done = tensorflow::StatusCallback;
  using Options = tensorflow::CallOptions;

  Asked Take() {
    Asked first = std::move(asked.front());
    asked.pop_front();
    return first;
  }
  void LoggingAsync(const tensorflow::LoggingRequest* request, tensorflow::LoggingResponse* response,
                    Done done) override {
    asked.push_back(Asked{request, response, std::move(done)});
  }

  // The rest is not called.
  static void Refuse(const Done& done) { done(absl::UnimplementedError("not played")); }
  void GetStatusAsync(Options* options, const tensorflow::GetStatusRequest*, tensorflow::GetStatusResponse*,
                      bool fail_fast, Done done) override {
    awaiting.push_back(Awaiting{options->GetTimeout(), fail_fast, std::move(done)});
  }
  void CreateWorkerSessionAsync(const tensorflow::CreateWorkerSessionRequest* request,
                                tensorflow::CreateWorkerSessionResponse*, Done done) override {
    sessions.push_back(request->session_handle());
    done(says);
  }
  void DeleteWorkerSessionAsync(Options*, const tensorflow::DeleteWorkerSessionRequest*,
                                tensorflow::DeleteWorkerSessionResponse*, Done done) override {
    Refuse(done);
  }
  void RegisterGraphAsync(const tensorflow::RegisterGraphRequest* request, tensorflow::RegisterGraphResponse* response,
                          Done done) override {
    graphs.push_back(*request);
    response->set_graph_handle(std::to_string(graphs.size()));
    done(says);
  }
  void DeregisterGraphAsync(const tensorflow::DeregisterGraphRequest*, tensorflow::DeregisterGraphResponse*,
                            Done done) override {
    Refuse(done);
  }
  void RunGraphAsync(Options*, tensorflow::RunGraphRequestWrapper*, tensorflow::MutableRunGraphResponseWrapper*,
                     Done done) override {
    Refuse(done);
  }
  void CleanupGraphAsync(const tensorflow::CleanupGraphRequest*, tensorflow::CleanupGraphResponse*,
                         Done done) override {
    Refuse(done);
  }
  void CleanupAllAsync(const tensorflow::CleanupAllRequest*, tensorflow::CleanupAllResponse*, Done done) override {
    Refuse(done);
  }
  void RecvTensorAsync(Options* options, const tensorflow::RecvTensorRequest* request,
                       tensorflow::TensorResponse* response, Done done) override {
    receiving.push_back(Receiving{options, request, response, std::move(done)});
    options->SetCancelCallback([this, index = receiving.size() - 1] { receiving[index].is_cancelled = true; });
  }
  void TracingAsync(const tensorflow::TracingRequest*, tensorflow::TracingResponse*, Done done) override {
    Refuse(done);
  }
  void RecvBufAsync(Options*, const tensorflow::RecvBufRequest*, tensorflow::RecvBufResponse*, Done done) override {
    Refuse(done);
  }
  void CompleteGroupAsync(Options*, const tensorflow::CompleteGroupRequest*, tensorflow::CompleteGroupResponse*,
                          Done done) override {
    Refuse(done);
  }
  void CompleteInstanceAsync(Options*, const tensorflow::CompleteInstanceRequest*,
                             tensorflow::CompleteInstanceResponse*, Done done) override {
    Refuse(done);
  }
  void GetStepSequenceAsync(const tensorflow::GetStepSequenceRequest*, tensorflow::GetStepSequenceResponse*,
                            Done done) override {
    Refuse(done);
  }
};

// Knows one task.
class FakeCache final : public tensorflow::WorkerCacheInterface {
 public:
  explicit FakeCache(std::string target, std::unique_ptr<FakeWorker> worker = std::make_unique<FakeWorker>())
      : target_(std::move(target)), worker_(std::move(worker)) {}
  ~FakeCache() override { EXPECT_EQ(lent_, 0); }

  FakeWorker& worker() { return *worker_; }
  int lent() const { return lent_; }  // and not released

 private:
  void ListWorkers(std::vector<std::string>* workers) const override { workers->push_back(target_); }
  void ListWorkersInJob(const std::string&, std::vector<std::string>*) const override {}
  tensorflow::WorkerInterface* GetOrCreateWorker(const std::string& target) override {
    if (target != target_) return nullptr;
    ++lent_;
    return worker_.get();
  }
  void ReleaseWorker(const std::string&, tensorflow::WorkerInterface* worker) override {
    EXPECT_EQ(worker, worker_.get());
    --lent_;
  }
  bool GetDeviceLocalityNonBlocking(const std::string&, tensorflow::DeviceLocality*) override { return false; }
  void GetDeviceLocalityAsync(const std::string&, tensorflow::DeviceLocality*,
                              tensorflow::StatusCallback done) override {
    done(absl::UnimplementedError("not played"));
  }
  TfStatus GetEagerClientCache(std::unique_ptr<tensorflow::eager::EagerClientCache>*) override {
    return absl::UnimplementedError("not played");
  }
  TfStatus GetCoordinationClientCache(std::unique_ptr<tensorflow::CoordinationClientCache>*) override {
    return absl::UnimplementedError("not played");
  }

  const std::string target_;
  const std::unique_ptr<FakeWorker> worker_;
  int lent_ = 0;
};

}  // namespace fusewire::tf
