// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/worker.h"

#include <memory>
#include <utility>

#include <absl/strings/str_cat.h>
#include <tensorflow/core/distributed_runtime/rpc/grpc_tensor_coding.h>
#include <tensorflow/core/lib/core/threadpool.h>

#include "fusewire/base/clock.h"
#include "fusewire/observe/event.h"
#include "fusewire/tf/bridge/graphs.h"
#include "fusewire/tf/peer/fused.h"
#include "fusewire/tf/peer/wire_call.h"
#include "fusewire/tf/receive/rendezvous.h"

namespace fusewire::tf {

namespace {

TfStatus Unencrypted(const char* call) {
  return absl::FailedPreconditionError(absl::StrCat(
      "a task without a data port asks for a tensor over gRPC (", call,
      "), and FUSEWIRE_TLS_CERT is set here: nothing goes to it unencrypted; next: see that it says import fusewire, "
      "with a protocol of Fusewire and without FUSEWIRE_DISABLE; see: fusewire explain trust#tls"));
}

TfStatus Fenced() {
  return absl::UnavailableError(absl::StrCat(kLostItsTask,
                                             ", and serves nothing any more; next: create a new session; see: "
                                             "fusewire explain elastic#who-owns-a-task"));
}

// A step that is recorded until its end.
tensorflow::StatusCallback Recorded(uint32_t tag, int64_t step, tensorflow::StatusCallback done) {
  if (observe::TheRecorder() == nullptr) return done;
  // shared_ptr: std::function wants copies.
  auto event = std::make_shared<observe::Event>();
  event->Begin(observe::Kind::kStep, tag, step, 0);
  return [event, done = std::move(done)](const TfStatus& status) {
    event->End(status.ok());
    done(status);
  };
}

}  // namespace

Worker::Worker(tensorflow::WorkerEnv* env, const tensorflow::ConfigProto& config, bool is_grpc_only, bool must_encrypt)
    : GrpcWorker(env, config),
      is_grpc_only_(is_grpc_only),
      must_encrypt_(must_encrypt),
      source_{env,
              [this](const tensorflow::Rendezvous::ParsedKey& key, tensorflow::Device** device) {
                return PrepareRecvTensor(key, device);
              },
              [this](int64_t step) { AbortStep(step); }} {}

void Worker::Announce(const PortWords& words) {
  MutexLock lock(mutex_);
  words_ = words;
}

void Worker::GrpcRecvTensorAsync(tensorflow::CallOptions* options, const tensorflow::RecvTensorRequest* request,
                                 ::grpc::ByteBuffer* response, tensorflow::StatusCallback done) {
  if (must_encrypt_) return done(Unencrypted("RecvTensor"));
  if (!IsFused(*request)) return GrpcWorker::GrpcRecvTensorAsync(options, request, response, std::move(done));
  ParsedKeys keys;
  // If gRPC sends a call twice, the second would wait forever for the tensor that the first one took.
  TfStatus sane = recent_request_ids_.TrackUnique(request->request_id(), "RecvTensor (fused)", *request);
  if (sane.ok()) sane = ReadFused(*request, &keys);
  if (!sane.ok()) return done(sane);
  FusedProvider::Start(
      source_, options, request->step_id(), std::move(keys),
      [response, done = std::move(done)](const TfStatus& status, const tensorflow::Tensor& answer) {
        // It can't fail for a tensor of this size, and returned nothing in older versions.
        if (status.ok()) static_cast<void>(tensorflow::grpc::EncodeTensorToByteBuffer(false, answer, false, response));
        done(status);
      });
}

void Worker::RecvBufAsync(tensorflow::CallOptions* options, const tensorflow::RecvBufRequest* request,
                          tensorflow::RecvBufResponse* response, tensorflow::StatusCallback done) {
  if (must_encrypt_) return done(Unencrypted("RecvBuf"));
  GrpcWorker::RecvBufAsync(options, request, response, std::move(done));
}

void Worker::RunGraphAsync(tensorflow::CallOptions* options, tensorflow::RunGraphRequestWrapper* request,
                           tensorflow::MutableRunGraphResponseWrapper* response, tensorflow::StatusCallback done) {
  if (is_fenced()) return done(Fenced());
  StarService* star = star_.load(std::memory_order_acquire);
  Gate* gate = star == nullptr ? nullptr : star->gate();
  if (gate != nullptr) {
    const bool has_entered = gate->Enter([this, options, request, response, done](bool may_enter) {
      if (!may_enter) return done(Fenced());
      env()->compute_pool->Schedule(
          [this, options, request, response, done] { RunGraphAsync(options, request, response, done); });
    });
    if (!has_entered) return;
    done = [gate, done = std::move(done)](const TfStatus& status) {
      done(status);
      gate->Leave();
    };
  }
  if (request->is_partial()) {  // inside the gate: once that is closed, none is missing
    partial_runs_.Keep(request->step_id(), Clock::Real()->NowNs());
    if (request->is_last_partial_run()) {
      done = [this, step = request->step_id(), done = std::move(done)](const TfStatus& status) {
        partial_runs_.Drop(step);
        done(status);
      };
    }
  }
  done = Recorded(step_tag_, request->step_id(), std::move(done));
  if (is_grpc_only_) return GrpcWorker::RunGraphAsync(options, request, response, std::move(done));
  // A request from gRPC can't be changed, and is checked for duplicates; one that can be changed is the own master's.
  auto* own = dynamic_cast<tensorflow::MutableRunGraphRequestWrapper*>(request);
  if (own != nullptr) own->set_request_id(kNoRequestId);
  auto run = [this, options, request, response](tensorflow::StatusCallback end) {
    // The parts of a partial run receive only tensors that their feeds allow.
    if (request->is_partial()) return GrpcWorker::RunGraphAsync(options, request, response, std::move(end));
    auto& rendezvous = static_cast<RendezvousMgr&>(*env()->rendezvous_mgr);
    tensorflow::RemoteRendezvous* step = rendezvous
                                             .Expect(request->step_id(), request->session_handle(),
                                                     request->graph_handle(), request->exec_opts().record_timeline())
                                             .release();
    GrpcWorker::RunGraphAsync(options, request, response, [step, end = std::move(end)](const TfStatus& status) {
      static_cast<Rendezvous*>(step)->step().DropLeavers();
      step->Unref();
      end(status);
    });
  };
  if (own != nullptr) return StepCalls::Start(request->step_id(), options, response, std::move(done), run);
  run(std::move(done));
}

void Worker::CleanupGraphAsync(const tensorflow::CleanupGraphRequest* request,
                               tensorflow::CleanupGraphResponse* response, tensorflow::StatusCallback done) {
  partial_runs_.Drop(request->step_id());
  GrpcWorker::CleanupGraphAsync(request, response, std::move(done));
}

void Worker::Fence(std::function<bool(PortWords*)> where) {
  MutexLock lock(mutex_);
  where_ = std::move(where);
  is_fenced_.store(true, std::memory_order_release);
}

void Worker::GetStatusAsync(tensorflow::CallOptions* options, const tensorflow::GetStatusRequest* request,
                            tensorflow::GetStatusResponse* response, bool fail_fast, tensorflow::StatusCallback done) {
  if (is_fenced()) return done(Fenced());
  GrpcWorker::GetStatusAsync(options, request, response, fail_fast, std::move(done));
}

void Worker::CreateWorkerSessionAsync(const tensorflow::CreateWorkerSessionRequest* request,
                                      tensorflow::CreateWorkerSessionResponse* response,
                                      tensorflow::StatusCallback done) {
  if (is_fenced()) return done(Fenced());
  GrpcWorker::CreateWorkerSessionAsync(request, response, [this, done = std::move(done)](const TfStatus& status) {
    StarService* star = star_.load(std::memory_order_acquire);
    if (star != nullptr) star->ReleaseEnded();
    done(status);
  });
}

void Worker::DeleteWorkerSessionAsync(tensorflow::CallOptions* options,
                                      const tensorflow::DeleteWorkerSessionRequest* request,
                                      tensorflow::DeleteWorkerSessionResponse* response,
                                      tensorflow::StatusCallback done) {
  StarService* star = star_.load(std::memory_order_acquire);
  if (star != nullptr) star->Release(request->session_handle());
  GrpcWorker::DeleteWorkerSessionAsync(options, request, response, std::move(done));
}

void Worker::RegisterGraphAsync(const tensorflow::RegisterGraphRequest* request,
                                tensorflow::RegisterGraphResponse* response, tensorflow::StatusCallback done) {
  if (is_fenced()) return done(Fenced());
  if (StarService* star = star_.load(std::memory_order_acquire)) star->Learn(*request);
  const bool is_watched = request->debug_options().debug_tensor_watch_opts_size() > 0;
  if (lists_ == ListUse::kNever || is_watched)
    return GrpcWorker::RegisterGraphAsync(request, response, std::move(done));
  GrpcWorker::RegisterGraphAsync(request, response, [this, request, response, done = std::move(done)](TfStatus status) {
    if (status.ok()) RunAsList(*request, response->graph_handle());
    done(status);
  });
}

void Worker::RunAsList(const tensorflow::RegisterGraphRequest& request, const std::string& graph) {
  const std::string& handle = request.session_handle();
  SessionPtr session;
  if (!env()->session_mgr->WorkerSessionForSession(handle, &session).ok()) return;
  ReplaceExecutor(session->graph_mgr(), graph, [this, &handle](const RegisteredGraph& registered, auto usual) {
    return StepList::Wrap(lists_, registered, handle, std::move(usual));
  });
}

void Worker::CleanupAllAsync(const tensorflow::CleanupAllRequest* request, tensorflow::CleanupAllResponse* response,
                             tensorflow::StatusCallback done) {
  GrpcWorker::CleanupAllAsync(request, response, [this, done = std::move(done)](const TfStatus& status) {
    StarService* star = star_.load(std::memory_order_acquire);
    if (star != nullptr) star->OnCleared();
    done(status);
  });
}

void Worker::DeregisterGraphAsync(const tensorflow::DeregisterGraphRequest* request,
                                  tensorflow::DeregisterGraphResponse* response, tensorflow::StatusCallback done) {
  static_cast<RendezvousMgr*>(env()->rendezvous_mgr)->Forget(request->session_handle(), request->graph_handle());
  GrpcWorker::DeregisterGraphAsync(request, response, std::move(done));
}

void Worker::LoggingAsync(const tensorflow::LoggingRequest* request, tensorflow::LoggingResponse* response,
                          tensorflow::StatusCallback done) {
  Inquiries* inquiries = inquiries_.load(std::memory_order_acquire);
  if (inquiries != nullptr && Inquiries::IsAsked(*request))
    return inquiries->Answer(*request, response, std::move(done));
  if (!PortWords::IsAsked(*request)) return GrpcWorker::LoggingAsync(request, response, std::move(done));
  PortWords words;
  std::function<bool(PortWords*)> where;
  {
    MutexLock lock(mutex_);
    words = words_;
    if (is_fenced()) where = where_;
  }
  if (is_fenced() && !where(&words)) return done(Fenced());
  words.Answer(response);
  done(TfStatus());
}

}  // namespace fusewire::tf
