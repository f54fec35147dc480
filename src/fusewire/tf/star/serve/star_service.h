// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The service of a parameter server for workers under star_server: it places parts of graphs, and runs them. A quick
// part runs on the reactor that has read the request; others run on TensorFlow's pool. Home: every reactor of its node.
// Owns: the shelf and the store. Fails: each request on its own.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <tensorflow/core/distributed_runtime/worker_env.h>
#include "fusewire/base/mutex.h"
#include "fusewire/rpc/rpc.h"
#include "fusewire/tf/star/serve/gate.h"
#include "fusewire/tf/star/serve/shelf.h"
#include "fusewire/tf/star/serve/values.h"

namespace fusewire::tf {

class StarService {
 public:
  // `snapshots` may be null: the task keeps none.
  explicit StarService(tensorflow::WorkerEnv* env, Snapshots* snapshots = nullptr);
  // Once: the methods for a server at these homes.
  std::vector<rpc::Method> Methods(reactor::Pool& homes);
  // Any thread.
  void Release(const std::string& session);
  void ReleaseEnded();
  void DropStep(int64_t step) { store_.Drop(step); }
  // Any thread. A graph that this task will run without us.
  void Learn(const tensorflow::RegisterGraphRequest& request);
  // Any thread. Containers of this task were cleared: the next snapshot copies everything.
  void OnCleared() {
    if (snapshots_ != nullptr) snapshots_->inventory().MarkAll();
  }
  // Any thread that may wait: see Snapshots::Hooks.
  TfStatus Collect(std::vector<KeptClient>* clients);
  // For all runs, if the task can move; otherwise null.
  Gate* gate() { return snapshots_ == nullptr ? nullptr : &gate_; }
  // What a server that takes the task gets; and what it does with it, before the first run.
  std::vector<std::string> Parts() { return shelf_.Parts(); }
  TfStatus Save(std::string* values) { return store_.Save(values); }
  void MakeAhead(const std::vector<std::string>& parts);
  TfStatus Resume(const std::string& values);
  // The task is elsewhere: all that runs have kept here goes, and calls that wait at the gate end.
  void EndAll();

 private:
  class Incoming;
  // Sessions that workers still have to tell to a task that has come to this process: other tasks may send it values of
  // theirs before. Home: any thread.
  class ExpectedSessions {
   public:
    void Begin(int64_t now_ns);
    // False: they have had time enough.
    bool Add(const std::string& session, int64_t now_ns);
    // Those that were added, once they have.
    std::set<std::string> TakeOverdue(int64_t now_ns);

   private:
    Mutex mutex_;
    int64_t until_ns_ FUSEWIRE_GUARDED_BY(mutex_) = 0;
    std::set<std::string> sessions_ FUSEWIRE_GUARDED_BY(mutex_);
  };

  void Place(rpc::Request request, rpc::Reply reply);
  void Run(rpc::Request request, rpc::Reply reply);
  void Begin(std::unique_ptr<Incoming> incoming, const pipe::PeerInfo* peer, rpc::Reply reply);
  void Keep(rpc::Request request, rpc::Reply reply);
  void Store(std::unique_ptr<IncomingValues> values, rpc::Reply reply);
  // False: the gate is closed, and go(what, reply) is called later, at the reply's home, or the reply is dropped.
  template <class What, class Go>
  bool Enter(std::unique_ptr<What>* what, rpc::Reply* reply, Go go);
  void Leave() {
    if (snapshots_ != nullptr) gate_.Leave();
  }

  tensorflow::WorkerEnv* const env_;
  Snapshots* const snapshots_;
  Shelf shelf_;
  RestoredAnswers restored_;
  StepStore store_;
  ExpectedSessions expected_;
  Gate gate_;
};

}  // namespace fusewire::tf
