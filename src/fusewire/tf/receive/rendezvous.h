// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The tensors of one step that cross tasks: a receive from a task with a Channel goes over that, any other over gRPC.
// TensorFlow's own rendezvous keeps tensors to be sent until they are requested.
// Home: any thread. Owns: the receives under way, as TensorFlow's base class counts them.
// Fails: each receive on its own, or all of the step's through StartAbort.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <tensorflow/core/distributed_runtime/base_rendezvous_mgr.h>
#include <tensorflow/core/framework/allocator.h>
#include "fusewire/base/mutex.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/peer/fused.h"
#include "fusewire/tf/peer/peer.h"
#include "fusewire/tf/receive/step_context.h"

namespace fusewire::tf {

// The steps of a graph receive the same tensors from other tasks each time. A ReceiveList keeps them from the first
// step, so that a later step requests all of them when it begins, not when its executor comes to each receive.
// Home: any thread. Owns: the lists of graphs that are registered. Fails: never; a step without a list requests each
// tensor on its own.

// Immutable. In the order of the first step.
class ReceiveList {
 public:
  struct Receive {
    std::string key;
    std::string task;    // the source
    std::string device;  // the destination
    tensorflow::AllocatorAttributes attributes;
  };
  explicit ReceiveList(std::vector<Receive> receives);

  const std::vector<Receive>& receives() const { return receives_; }
  // Its index, or -1.
  int Find(std::string_view key) const;

 private:
  const std::vector<Receive> receives_;
  std::unordered_map<std::string_view, int> index_;  // of keys in receives_
};
// shared_ptr: a running step keeps its list after its graph is deregistered.
using ReceiveListPtr = std::shared_ptr<const ReceiveList>;

// Graphs are named by their session and the number that it gave them.
class ReceiveBook {
 public:
  static std::string NameOf(const std::string& session, const std::string& graph) { return session + " " + graph; }

  // Null: no step of the graph has ended.
  ReceiveListPtr Find(const std::string& graph);
  // Adds receives that a step has made and its list lacks.
  void Learn(const std::string& graph, std::vector<ReceiveList::Receive> more);
  void Forget(const std::string& graph);

 private:
  Mutex mutex_;
  std::map<std::string, ReceiveListPtr> lists_ FUSEWIRE_GUARDED_BY(mutex_);
};
// shared_ptr: the rendezvous of a step may outlive its manager.
using ReceiveBookPtr = std::shared_ptr<ReceiveBook>;

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
  StepContext& step() { return step_; }
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

  ~Rendezvous() override;
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
  StepContext step_;
  // Written before the step begins.
  std::string graph_;  // empty: of no graph that is registered
  ReceiveListPtr list_;
  std::vector<std::atomic<WireRecv*>> ahead_;  // by the list's index; null where nothing was asked, or once taken

  Mutex mutex_;
  std::vector<ReceiveList::Receive> unlisted_ FUSEWIRE_GUARDED_BY(mutex_);
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
