// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/service.h"

#include <string>
#include <utility>

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>
#include <tensorflow/core/common_runtime/buf_rendezvous.h>
#include <tensorflow/core/common_runtime/copy_tensor.h>
#include <tensorflow/core/common_runtime/device_mgr.h>
#include <tensorflow/core/common_runtime/dma_helper.h>
#include <tensorflow/core/distributed_runtime/rendezvous_mgr_interface.h>
#include <tensorflow/core/framework/collective.h>
#include <tensorflow/core/lib/core/threadpool.h>

#include "fusewire/base/check.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/tf/bridge/names.h"
#include "fusewire/tf/bridge/status.h"
#include "fusewire/tf/bridge/tensor.h"
#include "fusewire/tf/heads/calls.h"
#include "fusewire/tf/peer/marks.h"
#include "fusewire/tf/peer/wire_call.h"
#include "fusewire/tf/provide/provider.h"
#include "fusewire/tf/server/inquiry.h"

namespace fusewire::tf {

using tensorflow::Tensor;

// A request on its way through TensorFlow. The caller's cancel reaches TensorFlow, and so does the loss of the caller,
// which also cancels.
template <class Request, class Response>
struct Asked {
  Request request;
  Response response;
  KeptCancel cancel, loss;
  std::string caller;
  rpc::Reply reply;
  std::string head;
  Buffers body;
};

namespace {

void Answer(rpc::Reply reply, const TfStatus& status, const google::protobuf::MessageLite* response) {
  std::string head;
  Buffers body;
  AppendTfStatus(status, &head);
  if (status.ok() && response != nullptr && !AppendProto(*response, &head, &body)) {
    head.clear();
    AppendTfStatus(absl::InternalError("an answer of more than protobuf can carry (2 GiB); see: "
                                       "fusewire explain tensors-over-2-gib#tensors-over-2-gib"),
                   &head);
  }
  reply.Send(Status::Ok(), head, std::move(body));
}

TfStatus CannotRead() { return absl::InvalidArgumentError("a request that is not the protobuf it should be"); }

// Keeps the request until TensorFlow can read it, off the reactor. shared_ptr: the worker holds it, and so does the
// callback for a cancel from the wire.
template <class A>
std::shared_ptr<A> Take(rpc::Request* request, rpc::Reply reply) {
  GlobalCounters().Add(&Counters::calls_in);
  auto asked = std::make_shared<A>();
  asked->head = request->head.ToString();
  asked->body = std::move(request->body);
  asked->reply = std::move(reply);
  asked->caller = request->peer->ToString();
  asked->reply.OnUnwanted([weak = std::weak_ptr<A>(asked)](rpc::Unwanted why) {
    auto there = weak.lock();
    if (there == nullptr) return;
    if (why == rpc::Unwanted::kLost) there->loss.Cancel();
    there->cancel.Cancel();
  });
  return asked;
}

}  // namespace

Service::Service(tensorflow::WorkerEnv* env, Worker* worker, WhereaboutsPtr known, Snapshots* snapshots)
    : env_(env), worker_(worker), known_(std::move(known)), star_(env, snapshots) {}

// Tells the tasks that wait for a tensor of the step why they won't get it. Otherwise they would hear that the step was
// cancelled, and could tell the master so before it has noticed the loss.
void Service::EndStepOf(const std::string& lost_caller, int64_t step) {
  const absl::string_view task = TaskOfDevice(env_->device_mgr->ListDevices().front()->name());
  env_->rendezvous_mgr->Find(step)->StartAbort(absl::UnavailableError(
      absl::StrCat(task, " has lost its connection to ", lost_caller,
                   ", which runs the step; next: check that it is running and reachable; see: fusewire explain "
                   "errors#unavailable")));
}

void Service::CleanUp(int64_t step) {
  env_->rendezvous_mgr->Cleanup(step);
  if (env_->collective_executor_mgr) env_->collective_executor_mgr->Cleanup(step);
  worker_->partial_runs().Drop(step);
  star_.DropStep(step);
}

// Reads the cleanups at the beginning, and makes them. False: they are cut off, or more than one call may have.
bool Service::DoCleanups(VarReader* reader) {
  return DecodeCleanups(reader, [this](int64_t step) { CleanUp(step); });
}

template <class Request, class Response, class Run>
rpc::Method Service::OnPool(uint16_t number, const char* name, Run run) {
  return {number, name,
          [this, number, run](rpc::Request request, rpc::Reply reply) {
            auto asked = Take<Asked<Request, Response>>(&request, std::move(reply));
            env_->compute_pool->Schedule([this, number, run, asked] {
              VarReader reader{ConstBytes(asked->head)};
              const bool has_cleanups = number != kRunGraph || DoCleanups(&reader);
              if (!has_cleanups || !ParseProto(reader.left(), asked->body, &asked->request))
                return Answer(std::move(asked->reply), CannotRead(), nullptr);
              asked->body.clear();
              run(asked);
            });
          },
          nullptr};
}

template <class Request, class Response>
rpc::Method Service::Unary(uint16_t number, const char* name,
                           void (tensorflow::WorkerInterface::*call)(const Request*, Response*,
                                                                     tensorflow::StatusCallback)) {
  return OnPool<Request, Response>(number, name, [this, call](const auto& asked) {
    auto* worker = static_cast<tensorflow::WorkerInterface*>(worker_);
    (worker->*call)(&asked->request, &asked->response,
                    [asked](const TfStatus& status) { Answer(std::move(asked->reply), status, &asked->response); });
  });
}

rpc::Method Service::RunGraph() {
  using tensorflow::RunGraphRequest;
  using tensorflow::RunGraphResponse;
  return OnPool<RunGraphRequest, RunGraphResponse>(kRunGraph, "RunGraph", [this](const auto& asked) {
    asked->request.set_request_id(kNoRequestId);  // a call never comes twice over our wire
    auto wrapped = std::make_shared<tensorflow::ProtoRunGraphRequest>(&asked->request);
    auto response = std::make_shared<tensorflow::NonOwnedProtoRunGraphResponse>(&asked->response);
    asked->loss.options()->SetCancelCallback(
        [this, step = asked->request.step_id(), &caller = asked->caller] { EndStepOf(caller, step); });
    worker_->RunGraphAsync(asked->cancel.options(), wrapped.get(), response.get(),
                           [asked, wrapped, response](const TfStatus& status) {
                             asked->loss.options()->ClearCancelCallback();
                             Answer(std::move(asked->reply), status, &asked->response);
                           });
    asked->loss.PassOn();
    asked->cancel.PassOn();
  });
}

rpc::Method Service::CleanupGraph() {
  return {kCleanupGraph, "CleanupGraph",
          [this](rpc::Request request, rpc::Reply reply) {
            GlobalCounters().Add(&Counters::calls_in);
            VarReader reader(request.head);
            bool ok = DoCleanups(&reader);
            reply.Send(ok ? Status::Ok()
                          : Status::Invalid("a list of steps to clean up is cut off, or of more than " +
                                            std::to_string(kCleanupsMax) + " steps"));
          },
          nullptr};
}

rpc::Method Service::AbortStep() {
  return {kAbortStep, "AbortStep",
          [this](rpc::Request request, rpc::Reply reply) {
            GlobalCounters().Add(&Counters::calls_in);
            int64_t step = 0;
            Status read = DecodeAbort(request.head, &step);
            if (read.ok()) worker_->Abort(step);
            reply.Send(std::move(read));
          },
          nullptr};
}

template <class Request, class Response>
rpc::Method Service::Cancellable(uint16_t number, const char* name,
                                 void (tensorflow::WorkerInterface::*call)(tensorflow::CallOptions*, const Request*,
                                                                           Response*, tensorflow::StatusCallback)) {
  return OnPool<Request, Response>(number, name, [this, call](const auto& asked) {
    auto* worker = static_cast<tensorflow::WorkerInterface*>(worker_);
    (worker->*call)(asked->cancel.options(), &asked->request, &asked->response,
                    [asked](const TfStatus& status) { Answer(std::move(asked->reply), status, &asked->response); });
    asked->cancel.PassOn();
  });
}

rpc::Method Service::GetStatus() {
  using tensorflow::GetStatusRequest;
  using tensorflow::GetStatusResponse;
  return OnPool<GetStatusRequest, GetStatusResponse>(kGetStatus, "GetStatus", [this](const auto& asked) {
    worker_->GetStatusAsync(
        asked->cancel.options(), &asked->request, &asked->response, /*fail_fast=*/true,
        [asked](const TfStatus& status) { Answer(std::move(asked->reply), status, &asked->response); });
  });
}

// The producer's buffer is sent without a copy, and released when the network is done with it.
rpc::Method Service::ReceiveBuffer() {
  using tensorflow::RecvBufRequest;
  using tensorflow::RecvBufResponse;
  return OnPool<RecvBufRequest, RecvBufResponse>(kReceiveBuffer, "RecvBuf", [this](const auto& asked) {
    const tensorflow::RecvBufRequest& wanted = asked->request;
    tensorflow::CollectiveExecutor::Handle executor(env_->collective_executor_mgr->FindOrCreate(wanted.step_id()),
                                                    true);
    executor.get()->remote_access()->buf_rendezvous()->ConsumeBuf(
        wanted.buf_rendezvous_key(), wanted.src_device(), wanted.src_incarnation(),
        [asked](const TfStatus& status, tensorflow::BufRendezvous::Hook* hook) {
          if (!status.ok()) return Answer(std::move(asked->reply), status, nullptr);
          // shared_ptr: a device's copy ends on its own thread.
          using CopyPtr = std::shared_ptr<Tensor>;
          auto send = [asked, hook](const Tensor& from, CopyPtr copy) {
            struct Held {
              tensorflow::BufRendezvous::Hook* hook;
              CopyPtr copy;
            };
            Buffers body;
            body.push_back(Buffer::WrapReadOnly(ConstBytes(tensorflow::DMAHelper::base(&from), from.TotalBytes()),
                                                new Held{hook, std::move(copy)}, [](void* owner, Bytes) {
                                                  auto* held = static_cast<Held*>(owner);
                                                  tensorflow::BufRendezvous::DoneWithHook(held->hook);
                                                  delete held;
                                                }));
            std::string head;
            AppendTfStatus(TfStatus(), &head);
            asked->reply.Send(Status::Ok(), head, std::move(body));
          };
          bool on_host = hook->prod_attr.on_host() || !IsAccelerator(hook->prod_dev);
          if (on_host) return send(*hook->prod_value, nullptr);
          tensorflow::Allocator* allocator = hook->prod_dev->GetAllocator(HostForDevice());
          auto copy = std::make_shared<Tensor>();
          tensorflow::CopyDeviceToHost(hook->prod_value, allocator, allocator, "fusewire", hook->prod_dev, copy.get(),
                                       hook->prod_ctx, [asked, hook, copy, send](const TfStatus& copied) {
                                         if (copied.ok()) return send(*copy, copy);
                                         tensorflow::BufRendezvous::DoneWithHook(hook);
                                         Answer(std::move(asked->reply), copied, nullptr);
                                       });
        },
        nullptr);
  });
}

rpc::Method Service::Receive() {
  return {kReceive, "receive", [this](rpc::Request request, rpc::Reply reply) { OnReceive(request, std::move(reply)); },
          nullptr};
}

void Service::OnReceive(const rpc::Request& request, rpc::Reply reply) {
  FUSEWIRE_AT_HOME(reply.home());
  GlobalCounters().Add(&Counters::calls_in);
  std::vector<Want> wants;
  TfStatus error;
  if (!keys_.Read(request.head, &wants, &error))
    return reply.Send(Status::Application(kUnknownKeys, "an unknown key number"));
  if (!error.ok()) return reply.Send(Status::Invalid(std::string(error.message())));
  Provider::Start(worker_->source(), std::move(wants), std::move(reply));
}

Status Service::Open(task::Task& task, std::vector<rpc::Method> more) {
  using W = tensorflow::WorkerInterface;
  std::vector<rpc::Method> methods = std::move(more);
  methods.push_back(Unary(kRegisterGraph, "RegisterGraph", &W::RegisterGraphAsync));
  methods.push_back(Unary(kDeregisterGraph, "DeregisterGraph", &W::DeregisterGraphAsync));
  methods.push_back(Unary(kCleanupAll, "CleanupAll", &W::CleanupAllAsync));
  methods.push_back(Unary(kGetStepSequence, "GetStepSequence", &W::GetStepSequenceAsync));
  methods.push_back(RunGraph());
  methods.push_back(CleanupGraph());
  methods.push_back(Cancellable(kCompleteInstance, "CompleteInstance", &W::CompleteInstanceAsync));
  methods.push_back(ReceiveBuffer());
  methods.push_back(Receive());
  methods.push_back(AbortStep());
  methods.push_back(EchoMethod());
  methods.push_back(ExchangeMethod(known_));
  methods.push_back(GetStatus());
  methods.push_back(Cancellable(kDeleteWorkerSession, "DeleteWorkerSession", &W::DeleteWorkerSessionAsync));
  methods.push_back(Unary(kCreateWorkerSession, "CreateWorkerSession", &W::CreateWorkerSessionAsync));
  for (rpc::Method& method : star_.Methods(task.pool())) methods.push_back(std::move(method));
  Result<std::unique_ptr<rpc::Server>> server = rpc::Server::Open(task, std::move(methods));
  if (!server.ok()) return server.status();
  FUSEWIRE_DCHECK(server_ == nullptr);
  server_ = std::move(server).value();
  return Status::Ok();
}

}  // namespace fusewire::tf
