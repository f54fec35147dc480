// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/worker.h"

#include <utility>

#include "fusewire/tf/data/peer.h"
#include "fusewire/tf/data/rendezvous.h"

namespace fusewire {
namespace tf {

Worker::Worker(tensorflow::WorkerEnv* env, const tensorflow::ConfigProto& config) : GrpcWorker(env, config) {}

void Worker::Announce(uint16_t port, uint64_t incarnation) {
  incarnation_ = incarnation;
  port_.store(port, std::memory_order_release);
}

void Worker::RunGraphAsync(tensorflow::CallOptions* options, tensorflow::RunGraphRequestWrapper* request,
                           tensorflow::MutableRunGraphResponseWrapper* response, tensorflow::StatusCallback done) {
  // What gRPC delivers cannot be changed, and is looked at.
  auto* own = dynamic_cast<tensorflow::MutableRunGraphRequestWrapper*>(request);
  if (own != nullptr) own->set_request_id(kNoRequestId);
  // The parts of a partial run receive what their feeds allow.
  if (request->is_partial()) {
    GrpcWorker::RunGraphAsync(options, request, response, std::move(done));
    return;
  }
  auto& rendezvous = static_cast<RendezvousMgr&>(*env()->rendezvous_mgr);
  tensorflow::RemoteRendezvous* step = rendezvous
                                           .Expect(request->step_id(), request->session_handle(),
                                                   request->graph_handle(), request->exec_opts().record_timeline())
                                           .release();
  GrpcWorker::RunGraphAsync(options, request, response, [step, done = std::move(done)](const TfStatus& status) {
    step->Unref();
    done(status);
  });
}

void Worker::CreateWorkerSessionAsync(const tensorflow::CreateWorkerSessionRequest* request,
                                      tensorflow::CreateWorkerSessionResponse* response,
                                      tensorflow::StatusCallback done) {
  GrpcWorker::CreateWorkerSessionAsync(request, response, [this, done = std::move(done)](const TfStatus& status) {
    Shelf* shelf = shelf_.load(std::memory_order_acquire);
    if (shelf != nullptr) shelf->ReleaseEnded();
    done(status);
  });
}

void Worker::DeleteWorkerSessionAsync(tensorflow::CallOptions* options,
                                      const tensorflow::DeleteWorkerSessionRequest* request,
                                      tensorflow::DeleteWorkerSessionResponse* response,
                                      tensorflow::StatusCallback done) {
  Shelf* shelf = shelf_.load(std::memory_order_acquire);
  if (shelf != nullptr) shelf->Release(request->session_handle());
  GrpcWorker::DeleteWorkerSessionAsync(options, request, response, std::move(done));
}

void Worker::DeregisterGraphAsync(const tensorflow::DeregisterGraphRequest* request,
                                  tensorflow::DeregisterGraphResponse* response, tensorflow::StatusCallback done) {
  static_cast<RendezvousMgr*>(env()->rendezvous_mgr)->Forget(request->session_handle(), request->graph_handle());
  GrpcWorker::DeregisterGraphAsync(request, response, std::move(done));
}

void Worker::LoggingAsync(const tensorflow::LoggingRequest* request, tensorflow::LoggingResponse* response,
                          tensorflow::StatusCallback done) {
  if (!PortWords::IsAsked(*request)) {
    GrpcWorker::LoggingAsync(request, response, std::move(done));
    return;
  }
  uint32_t port = port_.load(std::memory_order_acquire);
  if (port != 0) PortWords::Answer(static_cast<uint16_t>(port), incarnation_, response);
  done(TfStatus());
}

}  // namespace tf
}  // namespace fusewire
