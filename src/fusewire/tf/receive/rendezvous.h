// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The tensors of one step that cross tasks: a receive from a task with a Channel goes over that, any other over gRPC.
// TensorFlow's own rendezvous keeps tensors to be sent until they are requested.
// Home: any thread. Owns: the receives under way, as TensorFlow's base class counts them.
// Fails: each receive on its own, or all of the step's through StartAbort.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tensorflow/core/distributed_runtime/base_rendezvous_mgr.h>
#include <tensorflow/core/distributed_runtime/worker_cache_logger.h>
#include "fusewire/base/mutex.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/peer/fused.h"
#include "fusewire/tf/peer/peer.h"
#include "fusewire/tf/peer/search.h"
#include "fusewire/tf/receive/receive_lists.h"

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

class Rendezvous final : public tensorflow::BaseRemoteRendezvous {
 public:
  // Several tensors that one task sends to one device.
  struct Together {
    const ParsedKeys* keys = nullptr;  // live until `done` has been called for each, as do the arguments' contexts
    std::vector<Args> args;
    std::function<void(size_t, const TfStatus&, const tensorflow::Tensor&, bool is_dead)> done;
  };
  // Receives them in one request if `rendezvous` is one of ours; over gRPC, once the task is known to have the plug-in.
  static void RecvTogether(tensorflow::RendezvousInterface* rendezvous, Together receives);

  Rendezvous(const tensorflow::WorkerEnv* env, int64_t step, ReceiveBookPtr book);
  // Before Initialize: the step runs this graph of this session, and whether its transfers are wanted in a trace.
  void SetGraph(const std::string& session, const std::string& graph, bool is_traced);
  const std::string& session_handle() const { return session_handle_; }
  // Of the executors of this task.
  int pool_threads() const { return env_->compute_pool->NumThreads(); }
  // The way to a task of the step's session; calls `routed` here if it is known, else once it is. The rendezvous and
  // its session live at least until this returns.
  void RouteTo(const std::string& task, Routed routed);
  // Parts of the step leave values at these tasks, to be taken `values` times in all, and take some of them. Values
  // that remain after the step are dropped there.
  void Leave(const std::vector<std::string>& tasks, int64_t values);
  void Taken(int64_t values) { left_there_.fetch_sub(values, std::memory_order_relaxed); }
  // Requests all tensors of the graph's receive list.
  TfStatus Initialize(tensorflow::WorkerSession* session) override;
  void RecvAsync(const ParsedKey& parsed, const Args& args, DoneCallback done) override;

 protected:
  void RecvFromRemoteAsync(const ParsedKey& parsed, const Args& args, DoneCallback done) override;

 private:
  class WireRecv;
  class WaySearch;
  class GrpcCall;
  class GrpcRecv;
  class GrpcFusedRecv;
  // shared_ptr: each of its tensors ends in its own time.
  using TogetherPtr = std::shared_ptr<const Together>;
  struct Source {
    std::string task;
    Ways ways;
    ChannelPtr channel;  // null until known; shared_ptr: the peer may replace it
    bool is_traced = false;
    bool abort_told = false;
  };

  ~Rendezvous() override;
  // "/job:ps/replica:0/task:1/device:CPU:0" -> "/job:ps/replica:0/task:1"
  static absl::string_view TaskOf(absl::string_view device);
  TfStatus FindSource(absl::string_view task, Source* source);
  void AskAhead();
  // The receive of this key if it was requested ahead; the caller calls Unref.
  WireRecv* TakeAhead(absl::string_view key);
  void Remember(const ParsedKey& parsed, const Args& args);
  void StartOnWire(const ParsedKey& parsed, const Args& args, DoneCallback done, ChannelPtr channel,
                   TransferLogPtr log);
  void StartOnGrpc(const ParsedKey& parsed, const Args& args, DoneCallback done, SidePtr side);
  // False: they have to be received one by one.
  bool StartFusedOnGrpc(const TogetherPtr& wanted);
  static void RecvOne(tensorflow::RendezvousInterface* rendezvous, const TogetherPtr& wanted, size_t index);
  void TellAbort(const ChannelPtr& channel);

  const ReceiveBookPtr book_;
  // Written before the step begins.
  std::string session_handle_;
  std::string graph_;  // empty: of no graph that is registered
  bool is_traced_ = false;
  ReceiveListPtr list_;
  std::vector<std::atomic<WireRecv*>> ahead_;  // by the list's index; null where nothing was asked, or once taken

  std::atomic<int64_t> left_there_{0};
  Mutex mutex_;
  std::vector<ChannelPtr> holders_ FUSEWIRE_GUARDED_BY(mutex_);  // of remaining values
  std::vector<ReceiveList::Receive> unlisted_ FUSEWIRE_GUARDED_BY(mutex_);
  std::vector<Source> sources_ FUSEWIRE_GUARDED_BY(mutex_);  // of cache_; a step has few
  GrpcCachePtr cache_ FUSEWIRE_GUARDED_BY(mutex_);           // shared_ptr: as TensorFlow holds it
};

class RendezvousMgr final : public tensorflow::BaseRendezvousMgr {
 public:
  explicit RendezvousMgr(const tensorflow::WorkerEnv* env)
      : BaseRendezvousMgr(env), book_(std::make_shared<ReceiveBook>()) {}

  // The step will run this graph. TensorFlow destroys a rendezvous without references: hold it until the step has run.
  TfRef<tensorflow::RemoteRendezvous> Expect(int64_t step, const std::string& session, const std::string& graph,
                                             bool is_traced);
  void Forget(const std::string& session, const std::string& graph) {
    book_->Forget(ReceiveBook::NameOf(session, graph));
  }

 protected:
  TfRef<tensorflow::BaseRemoteRendezvous> Create(int64_t step, const tensorflow::WorkerEnv* env) override;

 private:
  const ReceiveBookPtr book_;
};

}  // namespace fusewire::tf
