// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What a step has as a whole on this task: its session, the threads of its executors, the ways to the other tasks, and
// what these are told when it is aborted or ends. Its rendezvous holds it; whatever else runs in the step asks it.
// Home: any thread. Owns: nothing that outlives the step. Fails: each way on its own.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <absl/strings/string_view.h>
#include <tensorflow/core/distributed_runtime/worker_cache_logger.h>
#include <tensorflow/core/distributed_runtime/worker_env.h>
#include <tensorflow/core/distributed_runtime/worker_session.h>
#include "fusewire/base/mutex.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/reactor/waiter.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/peer/peer.h"

namespace fusewire::tf {

// The log for traces of steps, as in gRPC's own cache. shared_ptr: calls outlive the session that began them.
using TransferLogPtr = std::shared_ptr<tensorflow::WorkerCacheLogger>;

// The ways to a task, from a worker of our cache.
struct Ways {
  // shared_ptr: calls outlive the session that began them. Null in a cache that is not ours.
  PeerPtr peer;
  SidePtr side;
  TransferLogPtr log;
};
class HasWays {
 public:
  virtual const Ways& ways() const = 0;

 protected:
  ~HasWays() = default;
};
// Fails if the cache knows no such task. Without a peer: the cache is not ours, and the only way is gRPC.
TfStatus FindWays(const GrpcCachePtr& cache, const std::string& task, Ways* ways);
// To the next of these that knows where tasks are. Null: it does not, or that is not known yet, and a later turn may
// find it.
ChannelPtr NextOf(const std::vector<Ways>& ways, uint64_t turn);

// A thread that has called Session.run, and may be kept until the step ends: it waits for that anyway.
// Calls that begin on it are held until it has nothing else to do: then it starts them, and turns the loop that their
// answers come to.
// Home: the thread. Owns: the fact, until it goes. Fails: never.
class StepThread {
 public:
  StepThread() : was_here_(is_here_) { is_here_ = true; }
  ~StepThread() { is_here_ = was_here_; }
  StepThread(const StepThread&) = delete;
  static bool IsHere() { return is_here_; }
  // False where a callback of a reactor begins the call.
  static bool MayHold() { return is_here_ && !reactor::Reactor::InsideAny(); }
  static void Hold(ChannelPtr channel, rpc::Call* call) { held_.push_back({std::move(channel), call}); }
  static size_t held() { return held_.size(); }
  static void StartHeld();
  // Starts what is held, and waits. `loop`, which may be null, is turned where nothing was held.
  static void Wait(reactor::Waiter* waiter, int64_t until_ns, reactor::Reactor* loop);

 private:
  struct Held {
    ChannelPtr channel;
    rpc::Call* call;
  };
  // The loop of the last one. The calls of one loop start in one turn of it.
  static reactor::Reactor& HomeOf(const std::vector<Held>& held) { return held.back().channel->client().home(); }
  // Returns the calls of that loop as mail, and starts the others.
  static std::vector<Mail*> Prepare(const std::vector<Held>& held);
  static thread_local bool is_here_;
  static thread_local std::vector<Held> held_;
  const bool was_here_;
};

class StepContext {
 public:
  // Another task of the step's session.
  struct Source {
    std::string task;
    Ways ways;
    ChannelPtr channel;  // null until known; shared_ptr: the peer may replace it
    bool is_traced = false;
    bool abort_told = false;
  };

  StepContext(const tensorflow::WorkerEnv& env, int64_t step) : env_(env), step_(step) {}
  // The other tasks drop the values that remain there.
  ~StepContext();
  StepContext(const StepContext&) = delete;

  // Before the step begins: its session's handle, and whether its transfers are wanted in a trace.
  void SetHandle(const std::string& session, bool is_traced);
  // Before the first question for a way. It outlives the step.
  void SetSession(tensorflow::WorkerSession* session) { session_.store(session, std::memory_order_release); }

  const std::string& session_handle() const { return session_handle_; }
  // The loop of the step's last call, for a thread that waits for its calls. Null: it has made none.
  void SetLoop(reactor::Reactor* loop) { loop_.store(loop, std::memory_order_release); }
  reactor::Reactor* loop() const { return loop_.load(std::memory_order_acquire); }
  // Of the executors of this task.
  int pool_threads() const { return env_.compute_pool->NumThreads(); }

  // What is known of the way to a task now.
  TfStatus FindSource(absl::string_view task, Source* source);
  // The way to a task, if it is known now; otherwise null.
  ChannelPtr KnownWay(absl::string_view task);
  // The way to a task; calls `routed` here if it is known, else once it is. The context and its session live at least
  // until this returns.
  void RouteTo(const std::string& task, Routed routed);

  // Parts of the step leave values at these tasks, to be taken `values` times in all, and take some of them. Values
  // that remain after the step are dropped there.
  void Leave(const std::vector<std::string>& tasks, int64_t values);
  void Taken(int64_t values) { left_there_.fetch_sub(values, std::memory_order_relaxed); }
  // A part that has left values, and may do so again until the step's executor here has ended.
  struct Leaver {
    std::string task;
    std::vector<std::string> holders;
    bool takes = false;  // values that other parts have left at its task
    // Any thread. Repeats the run.
    std::function<void(tensorflow::StatusCallback)> again;
  };
  void KeepLeaver(Leaver leaver);
  // Once the executor has ended. The context may live on: TensorFlow does not destroy the rendezvous of every step.
  void DropLeavers();
  // All that have to run again, in order, where `task` has lost what was left there.
  std::vector<Leaver> LeaversOf(const std::string& task);
  // Once: the task there aborts its part of the step.
  void TellAbort(const ChannelPtr& channel);

 private:
  TfStatus Find(absl::string_view task, const GrpcCachePtr& cache, Source** source) FUSEWIRE_REQUIRES(mutex_);
  // An eager context keeps its rendezvous while its cluster changes: a name may belong to another task by now.
  GrpcCachePtr Cache() const { return session_.load(std::memory_order_acquire)->GetSharedWorkerCache(); }

  const tensorflow::WorkerEnv& env_;
  const int64_t step_;
  std::string session_handle_;
  bool is_traced_ = false;
  std::atomic<tensorflow::WorkerSession*> session_{nullptr};
  std::atomic<reactor::Reactor*> loop_{nullptr};
  std::atomic<int64_t> left_there_{0};
  Mutex mutex_;
  std::vector<ChannelPtr> holders_ FUSEWIRE_GUARDED_BY(mutex_);  // of remaining values
  std::vector<Leaver> leavers_ FUSEWIRE_GUARDED_BY(mutex_);      // in the order of their ends
  std::vector<Source> sources_ FUSEWIRE_GUARDED_BY(mutex_);      // of cache_; a step has few
  GrpcCachePtr cache_ FUSEWIRE_GUARDED_BY(mutex_);               // shared_ptr: as TensorFlow holds it
};

}  // namespace fusewire::tf
