// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/remote_worker.h"

#include <memory>
#include <utility>

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <tensorflow/core/platform/env.h>
#include <tensorflow/core/platform/logging.h>

#include "fusewire/tf/bridge/status.h"
#include "fusewire/tf/peer/marks.h"
#include "fusewire/tf/peer/wire_call.h"

namespace fusewire::tf {

using tensorflow::CallOptions;
using tensorflow::StatusCallback;

namespace {

// Between two questions to others, while a task that a master wants to greet does not answer.
constexpr int64_t kGreetingPauseUs = 1000 * 1000;
// Between two calls to a process that has lost the task, and for how long.
constexpr int64_t kGreetingAgainUs = 200 * 1000;
constexpr int64_t kGreetingNs = 20 * kSecondNs;
constexpr int64_t kYieldsUs = 10 * 1000;  // in which it closes its connections
constexpr int kLossesMax = 16;            // of connections, for one call

// A call of a partial run whose earlier ones went to the process that had the task before.
TfStatus HasBegunElsewhere(const std::string& target) {
  return absl::UnavailableError(absl::StrCat("another process has ", target,
                                             " since this partial_run began, and what it has computed there is ",
                                             "lost; next: set it up again; see: fusewire explain elastic#moving"));
}

// A collective provides the memory for the bytes: they land there, and the answer has nothing else.
class ReceiveBufferCall final : public rpc::Call {
 public:
  ReceiveBufferCall(ChannelPtr channel, CallOptions* options, const tensorflow::RecvBufRequest& request,
                    StatusCallback done)
      : Call(kReceiveBuffer),
        channel_(std::move(channel)),
        options_(options),
        place_(reinterpret_cast<void*>(static_cast<uintptr_t>(request.buf_ptr())),
               static_cast<size_t>(request.num_bytes())),
        done_(std::move(done)) {
    tensorflow::RecvBufRequest travelling = request;
    travelling.clear_buf_ptr();
    travelling.AppendToString(&text_);
    head = text_;
  }

  void Go() {
    options_->SetCancelCallback([this] { Cancel(); });
    GlobalCounters().Add(&Counters::calls_out);
    channel_->client().Start(this);
  }

 private:
  Result<pipe::Landing> Land(ConstBytes, const rpc::SegmentSizes& sizes) override {
    if (sizes.count() != 1 || sizes.total() != place_.size) {
      return Status::Corrupt("a collective's peer sends " + std::to_string(sizes.total()) + " bytes where " +
                             std::to_string(place_.size) + " are expected");
    }
    landed_ = true;
    return pipe::Landing::Into(&place_, 1);
  }

  void OnDone(Status status) override {
    options_->ClearCancelCallback();
    channel_->ReportStatus(status);
    TfStatus end = ToTf(status);
    if (status.ok()) {
      VarReader reader{ConstBytes(reply_head)};
      TfStatus read = ReadTfStatus(&reader, &end);
      if (!read.ok()) end = read;
      if (end.ok() && !landed_ && place_.size > 0) end = absl::DataLossError("a collective's peer sent no data");
    }
    end = WithTarget(end, channel_->target(), "RecvBuf");
    StatusCallback done = std::move(done_);
    delete this;
    done(end);
  }

  const ChannelPtr channel_;
  CallOptions* const options_;
  Bytes place_;
  StatusCallback done_;
  std::string text_;
  bool landed_ = false;
};

// A call whose answer is ignored: it lives until its answer. shared_ptr: std::function must be copyable.
template <class Request, class Response>
struct Posted {
  SidePtr side;
  CallOptions options;
  Request request;
  Response response;
};

template <class Request, class Response>
auto Post(const SidePtr& side, const Request& request, const Response*) {
  auto posted = std::make_shared<Posted<Request, Response>>();
  posted->side = side;
  posted->request = request;
  return posted;
}

// Over gRPC; the answer is ignored.
template <class Request, class Response>
void Tell(const SidePtr& side, void (tensorflow::WorkerInterface::*method)(const Request*, Response*, StatusCallback),
          const Request& request, const Response* response) {
  auto posted = Post(side, request, response);
  (side->worker()->*method)(&posted->request, &posted->response, [posted](const TfStatus&) {});
}

// A call over our wire. If its connection is lost, or about to be, and the task comes back with what it had, or is
// elsewhere, it is made again there: what these calls do may be done twice. `request` and `response` live until `done`.
template <class Request, class Response>
class ControlCall : public std::enable_shared_from_this<ControlCall<Request, Response>> {
 public:
  ControlCall(Ways ways, MethodNumber number, const char* name, const Request* request, Response* response,
              StatusCallback done)
      : ways_(std::move(ways)),
        number_(number),
        name_(name),
        request_(request),
        response_(response),
        done_(std::move(done)) {}

  void Go(const ChannelPtr& channel) {
    auto end = [self = this->shared_from_this(), channel](const TfStatus& status) { self->End(channel, status); };
    (new WireCall(channel, number_, name_, nullptr, response_, std::move(end)))->Start(*request_);
  }

 private:
  void End(const ChannelPtr& channel, const TfStatus& status) {
    const bool is_about_to_be = absl::StrContains(status.message(), kLostItsTask);
    const bool is_lost = absl::IsUnavailable(status) && (is_about_to_be || !channel->alive());
    const bool comes_back = channel->recovers() && channel->options().state != 0;
    if (!is_lost || !comes_back || losses_++ == kLossesMax) return done_(status);
    // Off the reactor: it may send over gRPC.
    tensorflow::Env::Default()->SchedClosureAfter(
        is_about_to_be ? kYieldsUs : 0, [self = this->shared_from_this(), status] {
          self->ways_.peer->Route(self->ways_.side, [self, status](const TfStatus& found, const ChannelPtr& next) {
            if (next != nullptr) return self->Go(next);
            self->done_(found.ok() ? status : found);
          });
        });
  }

  const Ways ways_;
  const MethodNumber number_;
  const char* const name_;
  const Request* const request_;
  Response* const response_;
  const StatusCallback done_;
  int losses_ = 0;
};

template <class Request, class Response>
void CallOverWire(const Ways& ways, const ChannelPtr& channel, MethodNumber number, const char* name,
                  const Request* request, Response* response, StatusCallback done) {
  // shared_ptr: std::function wants copies.
  std::make_shared<ControlCall<Request, Response>>(ways, number, name, request, response, std::move(done))->Go(channel);
}

}  // namespace

RemoteWorker::RemoteWorker(Ways ways, Siblings siblings) : ways_(std::move(ways)), siblings_(std::move(siblings)) {}

void RemoteWorker::Route(CallOptions* opts, StatusCallback done, OverGrpc over_grpc, OverWire over_wire) {
  if (ways_.peer->is_grpc_only()) return over_grpc(opts, std::move(done));
  ChannelPtr channel = ways_.peer->channel();
  if (channel != nullptr) return over_wire(std::move(channel), opts, std::move(done));
  // shared_ptr: a cancel may come from the caller while the search ends.
  std::shared_ptr<KeptCancel> call;
  if (opts != nullptr) {
    call = std::make_shared<KeptCancel>();
    call->options()->SetTimeout(opts->GetTimeout());
    done = [opts, call, done = std::move(done)](const TfStatus& status) {
      opts->ClearCancelCallback();
      done(status);
    };
  }
  auto search = std::make_shared<Search>([call, done = std::move(done), over_grpc = std::move(over_grpc),
                                          over_wire = std::move(over_wire)](const TfStatus& status, ChannelPtr found) {
    CallOptions* options = call == nullptr ? nullptr : call->options();
    if (!status.ok()) {
      done(status);
    } else if (found != nullptr) {
      over_wire(std::move(found), options, done);
    } else {
      GlobalCounters().Add(&Counters::fallback_grpc_calls);
      over_grpc(options, done);
    }
    if (call != nullptr) call->PassOn();
  });
  if (opts != nullptr) {
    opts->SetCancelCallback([search, call] {
      search->GiveUp(absl::CancelledError("the call was cancelled"));
      call->Cancel();
    });
  }
  search->Begin([ways = ways_](Routed routed) { ways.peer->Route(ways.side, std::move(routed)); });
}

// ---- over gRPC: the control plane ----

// Over our wire if the task may be taken over by other processes, otherwise over gRPC.
void RemoteWorker::RouteControl(const Ways& ways, std::function<void(const ChannelPtr&)> call) {
  ways.peer->Route(ways.side, [call = std::move(call)](const TfStatus& status, const ChannelPtr& channel) {
    call(status.ok() && channel != nullptr && channel->options().epoch != 0 ? channel : nullptr);
  });
}

// A master's first call to a task. The task may live although nobody answers at its address in the cluster, or although
// another process answers there. The answer of the process that has it counts, if that process can be found.
// Home: any thread. Owns: itself, shared with its calls. Fails: as the call over gRPC.
class RemoteWorker::Greeting : public std::enable_shared_from_this<Greeting> {
 public:
  Greeting(Ways ways, const tensorflow::GetStatusRequest& request, tensorflow::GetStatusResponse* response,
           StatusCallback done)
      : ways_(std::move(ways)), request_(request), response_(response), done_(std::move(done)) {}

  void Begin(const Siblings& siblings) {
    auto other = [siblings](uint64_t turn) { return NextOf(siblings(), turn); };
    auto found = [self = shared_from_this()] {
      self->options_.StartCancel();
      self->Greet(absl::UnavailableError(absl::StrCat(self->ways_.side->target(), " is not where other tasks say")));
    };
    const ScoutPtr scout = ways_.peer->Seek(kGreetingPauseUs, std::move(other), std::move(found));
    Ask(scout);
    if (ways_.peer->epoch() == 0) return;
    // Known already, and perhaps not where the cluster says.
    RouteControl(ways_, [self = shared_from_this(), scout](const ChannelPtr& channel) {
      if (channel == nullptr || !scout->Stop()) return;
      self->options_.StartCancel();
      self->GreetOver(channel);
    });
  }

 private:
  // The call holds the scout.
  void Ask(const ScoutPtr& scout) {
    if (scout->is_over()) return;
    ways_.side->worker()->GetStatusAsync(&options_, &request_, &over_grpc_, /*fail_fast=*/false,
                                         [self = shared_from_this(), scout](const TfStatus& status) {
                                           const bool is_early = Clock::Real()->NowNs() < self->until_ns_;
                                           if (absl::IsUnavailable(status) && is_early) return self->AskWhere(scout);
                                           if (scout->Stop()) self->Greet(status);
                                         });
  }

  // It has lost its task, and may not know yet to whom.
  void AskWhere(const ScoutPtr& scout) {
    RouteControl(ways_, [self = shared_from_this(), scout](const ChannelPtr& channel) {
      if (channel != nullptr) {
        if (scout->Stop()) self->GreetOver(channel);
        return;
      }
      tensorflow::Env::Default()->SchedClosureAfter(kGreetingAgainUs, [self, scout] { self->Ask(scout); });
    });
  }

  void Greet(const TfStatus& over_grpc) {
    RouteControl(ways_, [self = shared_from_this(), over_grpc](const ChannelPtr& channel) {
      if (channel != nullptr) return self->GreetOver(channel);
      self->End(over_grpc, self->over_grpc_);
    });
  }

  void GreetOver(const ChannelPtr& channel) {
    auto end = [self = shared_from_this()](const TfStatus& status) { self->End(status, self->over_wire_); };
    CallOverWire(ways_, channel, kGetStatus, "GetStatus", &request_, &over_wire_, std::move(end));
  }

  void End(const TfStatus& status, const tensorflow::GetStatusResponse& response) {
    *response_ = response;
    done_(status);
  }

  const Ways ways_;
  const tensorflow::GetStatusRequest request_;
  tensorflow::GetStatusResponse* const response_;
  const StatusCallback done_;
  const int64_t until_ns_ = AddNs(Clock::Real()->NowNs(), kGreetingNs);
  CallOptions options_;
  tensorflow::GetStatusResponse over_grpc_, over_wire_;
};

void RemoteWorker::GetStatusAsync(CallOptions* opts, const tensorflow::GetStatusRequest* request,
                                  tensorflow::GetStatusResponse* response, bool fail_fast, StatusCallback done) {
  if (siblings_ == nullptr || fail_fast || opts != nullptr || ways_.peer->is_grpc_only())
    return ways_.side->worker()->GetStatusAsync(opts, request, response, fail_fast, std::move(done));
  std::make_shared<Greeting>(ways_, *request, response, std::move(done))->Begin(siblings_);
}

void RemoteWorker::CreateWorkerSessionAsync(const tensorflow::CreateWorkerSessionRequest* request,
                                            tensorflow::CreateWorkerSessionResponse* response, StatusCallback done) {
  ways_.peer->AskAgain();
  auto keep = [ways = ways_, request, done = std::move(done)](const TfStatus& status) {
    if (status.ok()) ways.peer->KeepSession(*request, ways.side);
    done(status);
  };
  const bool may_be_elsewhere = siblings_ != nullptr || ways_.peer->epoch() != 0;
  if (ways_.peer->is_grpc_only() || !may_be_elsewhere)
    return ways_.side->worker()->CreateWorkerSessionAsync(request, response, std::move(keep));
  RouteControl(ways_, [ways = ways_, request, response, keep = std::move(keep)](const ChannelPtr& channel) {
    if (channel == nullptr) return ways.side->worker()->CreateWorkerSessionAsync(request, response, keep);
    CallOverWire(ways, channel, kCreateWorkerSession, "CreateWorkerSession", request, response, keep);
  });
}

void RemoteWorker::DeleteWorkerSessionAsync(CallOptions* opts, const tensorflow::DeleteWorkerSessionRequest* request,
                                            tensorflow::DeleteWorkerSessionResponse* response, StatusCallback done) {
  ways_.peer->DropSession(request->session_handle());
  const ChannelPtr channel = ways_.peer->channel();
  if (channel != nullptr && channel->options().epoch != 0) {
    (new WireCall(channel, kDeleteWorkerSession, "DeleteWorkerSession", opts, response, std::move(done)))
        ->Start(*request);
    return;
  }
  if (!ways_.peer->is_lost())
    return ways_.side->worker()->DeleteWorkerSessionAsync(opts, request, response, std::move(done));
  auto posted = Post(ways_.side, *request, response);
  posted->options.SetTimeout(opts->GetTimeout());
  posted->side->worker()->DeleteWorkerSessionAsync(&posted->options, &posted->request, &posted->response,
                                                   [posted](const TfStatus&) {});
  done(absl::UnavailableError(
      absl::StrCat(ways_.side->target(),
                   " is lost: the session is closed without it, and ends there if it comes back; see: "
                   "fusewire explain incarnation-mismatch#a-task-has-restarted")));
}

void RemoteWorker::RecvTensorAsync(CallOptions* opts, const tensorflow::RecvTensorRequest* request,
                                   tensorflow::TensorResponse* response, StatusCallback done) {
  ways_.side->worker()->RecvTensorAsync(opts, request, response, std::move(done));
}

// Switching logs on and off does not wait: at the answer, TensorFlow drops the step's graph, which returns the worker
// to the session's cache, and a session that ended meanwhile has deleted the cache. Requests for a step are answered.
void RemoteWorker::LoggingAsync(const tensorflow::LoggingRequest* request, tensorflow::LoggingResponse* response,
                                StatusCallback done) {
  if (request->fetch_step_id_size() > 0) return ways_.side->worker()->LoggingAsync(request, response, std::move(done));
  Tell(ways_.side, &WorkerInterface::LoggingAsync, *request, response);
  done(TfStatus());
}

void RemoteWorker::TracingAsync(const tensorflow::TracingRequest* request, tensorflow::TracingResponse* response,
                                StatusCallback done) {
  ways_.side->worker()->TracingAsync(request, response, std::move(done));
}

// ---- over our wire, if the task has a data port ----

template <class Request, class Response>
void RemoteWorker::Unary(MethodNumber number, const char* name,
                         void (tensorflow::WorkerInterface::*method)(const Request*, Response*, StatusCallback),
                         const Request* request, Response* response, StatusCallback done) {
  Route(
      nullptr, std::move(done),
      [side = ways_.side, method, request, response](CallOptions*, StatusCallback end) {
        (side->worker()->*method)(request, response, std::move(end));
      },
      [ways = ways_, number, name, request, response](const ChannelPtr& channel, CallOptions*, StatusCallback end) {
        CallOverWire(ways, channel, number, name, request, response, std::move(end));
      });
}

void RemoteWorker::RegisterGraphAsync(const tensorflow::RegisterGraphRequest* request,
                                      tensorflow::RegisterGraphResponse* response, StatusCallback done) {
  auto keep = [peer = ways_.peer, request, response, done = std::move(done)](const TfStatus& status) {
    if (status.ok() && peer->may_return())
      response->set_graph_handle(peer->retelling().KeepGraph(*request, response->graph_handle()));
    done(status);
  };
  Unary(kRegisterGraph, "RegisterGraph", &WorkerInterface::RegisterGraphAsync, request, response, std::move(keep));
}

void RemoteWorker::DeregisterGraphAsync(const tensorflow::DeregisterGraphRequest* request,
                                        tensorflow::DeregisterGraphResponse* response, StatusCallback done) {
  auto posted = Post(ways_.side, *request, response);
  std::string handle;
  if (ways_.peer->retelling().IsRenamed(request->session_handle(), request->graph_handle(), &handle))
    posted->request.set_graph_handle(handle);
  ways_.peer->retelling().DropGraph(request->session_handle(), request->graph_handle());
  Unary(kDeregisterGraph, "DeregisterGraph", &WorkerInterface::DeregisterGraphAsync, &posted->request,
        &posted->response, [posted](const TfStatus& status) {
          if (!status.ok())
            VLOG(1) << "fusewire: a graph stays with " << posted->side->target() << ": " << status.message();
        });
  // Answers at once, not at the call's end: TensorFlow would then return the worker to the session's cache, which a
  // session that ended meanwhile has deleted. Over gRPC alone, the session's end follows on the same connection, and
  // TensorFlow waits for it.
  done(TfStatus());
}

void RemoteWorker::RunGraphAsync(CallOptions* opts, tensorflow::RunGraphRequestWrapper* request,
                                 tensorflow::MutableRunGraphResponseWrapper* response, StatusCallback done) {
  auto run = [this, opts, request, response](StatusCallback end) {
    Route(
        opts, std::move(end),
        [side = ways_.side, request, response](CallOptions* options, StatusCallback ended) {
          side->worker()->RunGraphAsync(options, request, response, std::move(ended));
        },
        [peer = ways_.peer, request, proto = get_proto_from_wrapper(response)](ChannelPtr channel, CallOptions* options,
                                                                               StatusCallback ended) {
          const tensorflow::RunGraphRequest& said = request->ToProto();
          if (said.is_partial() && !peer->retelling().KeepPartialRun(said, channel->options().incarnation))
            return ended(HasBegunElsewhere(channel->target()));
          auto* call = new WireCall(channel, kRunGraph, "RunGraph", options, proto, std::move(ended));
          channel->TakeCleanups(call->text());
          GlobalCounters().Add(&Counters::run_graphs);
          std::string handle;
          if (!peer->retelling().IsRenamed(said.session_handle(), said.graph_handle(), &handle))
            return call->Start(said);
          tensorflow::RunGraphRequest renamed = said;
          renamed.set_graph_handle(handle);
          call->Start(renamed);
        });
  };
  StepCalls::Start(request->step_id(), opts, response, std::move(done), run);
}

// The answer is empty and is not used, so cleanups travel with the next step. A session can't be closed before all its
// steps are cleaned up, so this does not wait for a lost task.
void RemoteWorker::CleanupGraphAsync(const tensorflow::CleanupGraphRequest* request,
                                     tensorflow::CleanupGraphResponse* response, StatusCallback done) {
  ways_.peer->retelling().DropPartialRun(request->step_id());
  if (ways_.peer->is_lost()) {
    Tell(ways_.side, &WorkerInterface::CleanupGraphAsync, *request, response);
    done(TfStatus());
    return;
  }
  Route(
      nullptr, std::move(done),
      [side = ways_.side, request, response](CallOptions*, StatusCallback end) {
        side->worker()->CleanupGraphAsync(request, response, std::move(end));
      },
      [step = request->step_id()](ChannelPtr channel, CallOptions*, StatusCallback end) {
        channel->CleanUp(step);
        end(TfStatus());
      });
}

void RemoteWorker::CleanupAllAsync(const tensorflow::CleanupAllRequest* request,
                                   tensorflow::CleanupAllResponse* response, StatusCallback done) {
  Unary(kCleanupAll, "CleanupAll", &WorkerInterface::CleanupAllAsync, request, response, std::move(done));
}

void RemoteWorker::RecvBufAsync(CallOptions* opts, const tensorflow::RecvBufRequest* request,
                                tensorflow::RecvBufResponse* response, StatusCallback done) {
  if (request->buf_ptr() == 0 && request->num_bytes() > 0)
    return ways_.side->worker()->RecvBufAsync(opts, request, response, std::move(done));
  Route(
      opts, std::move(done),
      [side = ways_.side, request, response](CallOptions* options, StatusCallback end) {
        side->worker()->RecvBufAsync(options, request, response, std::move(end));
      },
      [request](ChannelPtr channel, CallOptions* options, StatusCallback end) {
        (new ReceiveBufferCall(std::move(channel), options, *request, std::move(end)))->Go();
      });
}

void RemoteWorker::CompleteGroupAsync(CallOptions* opts, const tensorflow::CompleteGroupRequest* request,
                                      tensorflow::CompleteGroupResponse* response, StatusCallback done) {
  // Over gRPC: it waits for the peer to appear, and comes once per group.
  ways_.side->worker()->CompleteGroupAsync(opts, request, response, std::move(done));
}

void RemoteWorker::CompleteInstanceAsync(CallOptions* opts, const tensorflow::CompleteInstanceRequest* request,
                                         tensorflow::CompleteInstanceResponse* response, StatusCallback done) {
  Route(
      opts, std::move(done),
      [side = ways_.side, request, response](CallOptions* options, StatusCallback end) {
        side->worker()->CompleteInstanceAsync(options, request, response, std::move(end));
      },
      [request, response](ChannelPtr channel, CallOptions* options, StatusCallback end) {
        (new WireCall(std::move(channel), kCompleteInstance, "CompleteInstance", options, response, std::move(end)))
            ->Start(*request);
      });
}

void RemoteWorker::GetStepSequenceAsync(const tensorflow::GetStepSequenceRequest* request,
                                        tensorflow::GetStepSequenceResponse* response, StatusCallback done) {
  Unary(kGetStepSequence, "GetStepSequence", &WorkerInterface::GetStepSequenceAsync, request, response,
        std::move(done));
}

}  // namespace fusewire::tf
