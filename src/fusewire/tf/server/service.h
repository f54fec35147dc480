// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The data port of a server: its Worker answers the calls of its peers' RemoteWorkers and Channels.
// Home: the reactors of its task; TensorFlow's work is done on its compute pool. Owns: the rpc server.
// Fails: Open, with the reason; afterwards each call on its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <tensorflow/core/distributed_runtime/worker_env.h>
#include "fusewire/rpc/rpc.h"
#include "fusewire/tf/peer/keys.h"
#include "fusewire/tf/peer/whereabouts.h"
#include "fusewire/tf/server/worker.h"
#include "fusewire/tf/star/serve/star_service.h"

namespace fusewire::tf {

class Service {
 public:
  // All outlive the service. `snapshots` may be null: the task keeps none.
  Service(tensorflow::WorkerEnv* env, Worker* worker, WhereaboutsPtr known, Snapshots* snapshots = nullptr);
  // Served at the task's listener, with further methods.
  Status Open(task::Task& task, std::vector<rpc::Method> more = {});
  uint16_t port() const { return server_->address().port; }
  StarService& star() { return star_; }

 private:
  template <class Request, class Response>
  rpc::Method Unary(uint16_t number, const char* name,
                    void (tensorflow::WorkerInterface::*method)(const Request*, Response*, tensorflow::StatusCallback));
  // The same of a method that takes options: a cancel reaches it.
  template <class Request, class Response>
  rpc::Method Cancellable(uint16_t number, const char* name,
                          void (tensorflow::WorkerInterface::*method)(tensorflow::CallOptions*, const Request*,
                                                                      Response*, tensorflow::StatusCallback));
  // Reads the request, and calls run(asked) on TensorFlow's pool.
  template <class Request, class Response, class Run>
  rpc::Method OnPool(uint16_t number, const char* name, Run run);
  rpc::Method RunGraph();
  rpc::Method CleanupGraph();
  rpc::Method ReceiveBuffer();
  rpc::Method Receive();
  rpc::Method AbortStep();
  rpc::Method GetStatus();
  void EndStepOf(const std::string& lost_caller, int64_t step);
  void CleanUp(int64_t step);
  bool DoCleanups(VarReader* reader);
  void OnReceive(const rpc::Request& request, rpc::Reply reply);

  tensorflow::WorkerEnv* const env_;
  Worker* const worker_;
  const WhereaboutsPtr known_;
  KeyLibrary keys_;
  StarService star_;
  std::unique_ptr<rpc::Server> server_;
};

}  // namespace fusewire::tf
