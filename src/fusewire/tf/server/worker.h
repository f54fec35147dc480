// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// TensorFlow's worker, with access to its internals for the data plane. The gRPC service and ours call the same one, so
// that they share sessions, partial runs and the check for duplicates.
// Home: any thread. Owns: nothing more than its base. Fails: each call on its own, with TensorFlow's errors.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include <tensorflow/core/distributed_runtime/rpc/grpc_worker_service.h>
#include "fusewire/base/mutex.h"
#include "fusewire/tf/peer/peer.h"
#include "fusewire/tf/provide/provider.h"
#include "fusewire/tf/server/inquiry.h"
#include "fusewire/tf/server/partial_runs.h"
#include "fusewire/tf/star/home/step_list.h"
#include "fusewire/tf/star/serve/star_service.h"

namespace fusewire::tf {

// TensorFlow refuses a step whose request id it has seen before. It draws the ids from a generator with a seed of 32
// bits, a new one for each step, so that one step in some 40,000 is refused by mistake. This id is not checked.
constexpr int64_t kNoRequestId = 0;

class Worker final : public tensorflow::GrpcWorker {
 public:
  // `is_grpc_only`: steps are run as TensorFlow runs them. `must_encrypt`: no tensor leaves over gRPC.
  Worker(tensorflow::WorkerEnv* env, const tensorflow::ConfigProto& config, bool is_grpc_only, bool must_encrypt);

  // The answer to gRPC peers that request this task's data port.
  void Announce(const PortWords& words);

  void LoggingAsync(const tensorflow::LoggingRequest* request, tensorflow::LoggingResponse* response,
                    tensorflow::StatusCallback done) override;

  // Also answers for all tensors of a fused receive.
  void GrpcRecvTensorAsync(tensorflow::CallOptions* options, const tensorflow::RecvTensorRequest* request,
                           ::grpc::ByteBuffer* response, tensorflow::StatusCallback done) override;
  // From gRPC: over our wire, buffers are not served here.
  void RecvBufAsync(tensorflow::CallOptions* options, const tensorflow::RecvBufRequest* request,
                    tensorflow::RecvBufResponse* response, tensorflow::StatusCallback done) override;

  // From this process's own master: it can't come twice.
  void RunGraphAsync(tensorflow::CallOptions* options, tensorflow::RunGraphRequestWrapper* request,
                     tensorflow::MutableRunGraphResponseWrapper* response, tensorflow::StatusCallback done) override;

  void CleanupGraphAsync(const tensorflow::CleanupGraphRequest* request, tensorflow::CleanupGraphResponse* response,
                         tensorflow::StatusCallback done) override;
  PartialRuns& partial_runs() { return partial_runs_; }

  // Sessions are created and closed over gRPC; parts that they have placed here are removed with them.
  void SetStar(StarService* star) { star_.store(star, std::memory_order_release); }
  void CreateWorkerSessionAsync(const tensorflow::CreateWorkerSessionRequest* request,
                                tensorflow::CreateWorkerSessionResponse* response,
                                tensorflow::StatusCallback done) override;
  void DeleteWorkerSessionAsync(tensorflow::CallOptions* options, const tensorflow::DeleteWorkerSessionRequest* request,
                                tensorflow::DeleteWorkerSessionResponse* response,
                                tensorflow::StatusCallback done) override;

  // What the graph holds on this task belongs to its snapshots.
  void RegisterGraphAsync(const tensorflow::RegisterGraphRequest* request, tensorflow::RegisterGraphResponse* response,
                          tensorflow::StatusCallback done) override;
  void DeregisterGraphAsync(const tensorflow::DeregisterGraphRequest* request,
                            tensorflow::DeregisterGraphResponse* response, tensorflow::StatusCallback done) override;

  // What was in the containers is gone.
  void CleanupAllAsync(const tensorflow::CleanupAllRequest* request, tensorflow::CleanupAllResponse* response,
                       tensorflow::StatusCallback done) override;

  // Before the first graph: sessions of this process run their graphs here as lists (star/home/step_list.h).
  void RunLists(ListUse use) { lists_ = use; }

  // Any thread. Another server has the task: from now on sessions, graphs and steps are refused, and requests for the
  // data port are answered by `where`, which returns false if it does not know.
  void Fence(std::function<bool(PortWords*)> where);
  // This server has the task.
  void Unfence() { is_fenced_.store(false, std::memory_order_release); }
  void GetStatusAsync(tensorflow::CallOptions* options, const tensorflow::GetStatusRequest* request,
                      tensorflow::GetStatusResponse* response, bool fail_fast,
                      tensorflow::StatusCallback done) override;

  // Before gRPC's port answers. It outlives the worker.
  void SetInquiries(Inquiries* inquiries) { inquiries_.store(inquiries, std::memory_order_release); }

  // Before the first step: what the steps of this task are recorded as.
  void RecordSteps(uint32_t tag) { step_tag_ = tag; }

  // Of the base class, for our own service.
  void Abort(int64_t step) { AbortStep(step); }
  const Provider::Source& source() const { return source_; }

 private:
  void RunAsList(const tensorflow::RegisterGraphRequest& request, const std::string& graph);
  bool is_fenced() const { return is_fenced_.load(std::memory_order_acquire); }

  const bool is_grpc_only_;
  const bool must_encrypt_;
  uint32_t step_tag_ = 0;
  ListUse lists_ = ListUse::kNever;
  const Provider::Source source_;
  PartialRuns partial_runs_;
  Mutex mutex_;
  PortWords words_ FUSEWIRE_GUARDED_BY(mutex_);  // without a port until it is announced
  std::function<bool(PortWords*)> where_ FUSEWIRE_GUARDED_BY(mutex_);
  std::atomic<bool> is_fenced_{false};
  std::atomic<StarService*> star_{nullptr};     // the service's, while that exists
  std::atomic<Inquiries*> inquiries_{nullptr};  // the server's
};

}  // namespace fusewire::tf
