// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Another task's WorkerService: the calls of each step over our wire, the rest (sessions, status, logs) over gRPC;
// those of sessions and status over our wire, too, if other processes may take the task over. A task without a data
// port gets everything over gRPC. Home: any thread. Owns: the gRPC way to the task. Fails: each call on its own, as
// gRPC does.
#pragma once

#include <functional>
#include <vector>

#include <tensorflow/core/distributed_runtime/worker_interface.h>
#include "fusewire/tf/heads/calls.h"
#include "fusewire/tf/receive/step_context.h"

namespace fusewire::tf {

class RemoteWorker final : public tensorflow::WorkerInterface, public HasWays {
 public:
  // The other tasks of its job, which are asked where it is while it does not answer. Null: none is asked.
  using Siblings = std::function<std::vector<Ways>()>;
  // It belongs to a worker cache of ours.
  explicit RemoteWorker(Ways ways, Siblings siblings = nullptr);
  ~RemoteWorker() override = default;

  const Ways& ways() const override { return ways_; }

  void GetStatusAsync(tensorflow::CallOptions* opts, const tensorflow::GetStatusRequest* request,
                      tensorflow::GetStatusResponse* response, bool fail_fast,
                      tensorflow::StatusCallback done) override;
  void CreateWorkerSessionAsync(const tensorflow::CreateWorkerSessionRequest* request,
                                tensorflow::CreateWorkerSessionResponse* response,
                                tensorflow::StatusCallback done) override;
  void DeleteWorkerSessionAsync(tensorflow::CallOptions* opts, const tensorflow::DeleteWorkerSessionRequest* request,
                                tensorflow::DeleteWorkerSessionResponse* response,
                                tensorflow::StatusCallback done) override;
  void RegisterGraphAsync(const tensorflow::RegisterGraphRequest* request, tensorflow::RegisterGraphResponse* response,
                          tensorflow::StatusCallback done) override;
  void DeregisterGraphAsync(const tensorflow::DeregisterGraphRequest* request,
                            tensorflow::DeregisterGraphResponse* response, tensorflow::StatusCallback done) override;
  void RunGraphAsync(tensorflow::CallOptions* opts, tensorflow::RunGraphRequestWrapper* request,
                     tensorflow::MutableRunGraphResponseWrapper* response, tensorflow::StatusCallback done) override;
  void CleanupGraphAsync(const tensorflow::CleanupGraphRequest* request, tensorflow::CleanupGraphResponse* response,
                         tensorflow::StatusCallback done) override;
  void CleanupAllAsync(const tensorflow::CleanupAllRequest* request, tensorflow::CleanupAllResponse* response,
                       tensorflow::StatusCallback done) override;
  void RecvTensorAsync(tensorflow::CallOptions* opts, const tensorflow::RecvTensorRequest* request,
                       tensorflow::TensorResponse* response, tensorflow::StatusCallback done) override;
  void LoggingAsync(const tensorflow::LoggingRequest* request, tensorflow::LoggingResponse* response,
                    tensorflow::StatusCallback done) override;
  void TracingAsync(const tensorflow::TracingRequest* request, tensorflow::TracingResponse* response,
                    tensorflow::StatusCallback done) override;
  void RecvBufAsync(tensorflow::CallOptions* opts, const tensorflow::RecvBufRequest* request,
                    tensorflow::RecvBufResponse* response, tensorflow::StatusCallback done) override;
  void CompleteGroupAsync(tensorflow::CallOptions* opts, const tensorflow::CompleteGroupRequest* request,
                          tensorflow::CompleteGroupResponse* response, tensorflow::StatusCallback done) override;
  void CompleteInstanceAsync(tensorflow::CallOptions* opts, const tensorflow::CompleteInstanceRequest* request,
                             tensorflow::CompleteInstanceResponse* response, tensorflow::StatusCallback done) override;
  void GetStepSequenceAsync(const tensorflow::GetStepSequenceRequest* request,
                            tensorflow::GetStepSequenceResponse* response, tensorflow::StatusCallback done) override;

 private:
  // Both get the options through which they may be cancelled; null if `opts` is.
  using OverGrpc = std::function<void(tensorflow::CallOptions*, tensorflow::StatusCallback)>;
  using OverWire = std::function<void(ChannelPtr, tensorflow::CallOptions*, tensorflow::StatusCallback)>;

  // `over_grpc` is called if the task has no data port; `over_wire` if it has. Until then `opts`, unless null, may
  // cancel the search for the way.
  void Route(tensorflow::CallOptions* opts, tensorflow::StatusCallback done, OverGrpc over_grpc, OverWire over_wire);

  // A call without options: over our wire if the task has a data port, otherwise over gRPC.
  template <class Request, class Response>
  void Unary(MethodNumber number, const char* name,
             void (tensorflow::WorkerInterface::*method)(const Request*, Response*, tensorflow::StatusCallback),
             const Request* request, Response* response, tensorflow::StatusCallback done);

  static void RouteControl(const Ways& ways, std::function<void(const ChannelPtr&)> call);
  class Greeting;

  const Ways ways_;
  const Siblings siblings_;
};

}  // namespace fusewire::tf
