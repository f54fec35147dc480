// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Peer is another task of the cluster as our data plane knows it: whether it has a data port, and the Channel to it.
// The data port is requested from the gRPC address in the cluster, at first use and again after each loss. A task that
// can be restarted with what it had is waited for then, and told again what masters have told it.
// Home: any thread. Owns: the current Channel. Fails: a route fails as the gRPC call that requested the port did, or if
// its data must be encrypted and the task has no data port.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <tensorflow/core/distributed_runtime/worker_cache.h>
#include <tensorflow/core/protobuf/worker.pb.h>
#include "fusewire/base/mutex.h"
#include "fusewire/rpc/rpc.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/heads/calls.h"
#include "fusewire/tf/peer/channel.h"
#include "fusewire/tf/peer/retelling.h"
#include "fusewire/tf/peer/whereabouts.h"

namespace fusewire::tf {

// The request for a task's data port: a Logging call for a reserved step. A task without the plug-in has no logs of
// that step; one with the plug-in answers with a step that has this text. Port 0: it has no data port, only gRPC.
class PortWords : public DataPort {
 public:
  static void Ask(tensorflow::LoggingRequest* request);
  static bool IsAsked(const tensorflow::LoggingRequest& request);
  void Answer(tensorflow::LoggingResponse* response) const;
  // False: the task is without the plug-in.
  bool Read(const tensorflow::LoggingResponse& response);
  // The data port is there. False: that is not an address.
  bool PointTo(const Whereabout& place);
};

// shared_ptr: calls outlive the session that began them, and its cache.
using GrpcCachePtr = std::shared_ptr<tensorflow::WorkerCacheInterface>;

// The gRPC worker of a task, from one session's worker cache; it lives as long as it is used.
class GrpcSide {
 public:
  GrpcSide(GrpcCachePtr cache, const std::string& target)
      : cache_(std::move(cache)), target_(target), worker_(cache_->GetOrCreateWorker(target)) {}
  ~GrpcSide() {
    if (worker_ != nullptr) cache_->ReleaseWorker(target_, worker_);
  }
  GrpcSide(const GrpcSide&) = delete;
  tensorflow::WorkerInterface* worker() const { return worker_; }
  const std::string& target() const { return target_; }

 private:
  const GrpcCachePtr cache_;
  const std::string target_;
  tensorflow::WorkerInterface* const worker_;
};

// shared_ptr: as the cache that it comes from.
using SidePtr = std::shared_ptr<GrpcSide>;

// With a null channel, the way is gRPC.
using Routed = std::function<void(const TfStatus&, ChannelPtr)>;

class Peer : public std::enable_shared_from_this<Peer> {
 public:
  struct Options {
    std::string target;
    std::string address;       // "host:port", as the cluster names it
    std::string protocol;      // of this task, for the log; empty: it logs no connections
    std::string data_address;  // from .endpoint_map; empty: not there
    int64_t patience_ns = 0;
    int64_t recovery_ns = 0;    // see Channel::Options
    bool must_encrypt = false;  // no way over gRPC, which does not
    WhereaboutsPtr known;       // of this process
    // The next task to ask where this one is; null: none at present.
    std::function<ChannelPtr(uint64_t turn)> other;
  };
  // `task` outlives the peer. Null: the way is gRPC, whatever the peer speaks.
  Peer(task::Task* task, Options options);

  // Calls `routed` here if the way is known, otherwise once it is. The request, if one is needed, goes through `side`.
  void Route(const SidePtr& side, Routed routed);
  // Whether the task answers a fused receive over gRPC, as far as is known. If it has not been asked in this session,
  // it is asked now, without waiting: the answer counts from the next step on.
  bool Fuses(const SidePtr& side);
  // The task has shown that it does not answer one.
  void CannotFuse();
  // The channel if it is alive, otherwise null.
  ChannelPtr channel();
  // A new session: the task may have been restarted with the plug-in.
  void AskAgain();
  bool is_grpc_only() const { return task_ == nullptr; }
  // Its channel has been lost, and has no successor yet: the task is dead, or hangs. A caller that only cleans up there
  // need not wait for its answer.
  bool is_lost();

  // A master of this process has made a session there. As long as it has one, a task that is lost is looked for at
  // once, so that it is told even if nobody here waits for it: other parameter servers may.
  void KeepSession(const tensorflow::CreateWorkerSessionRequest& request, const SidePtr& side);
  void DropSession(const std::string& session);
  // Asks others where the task is, until one names a later epoch than the last that was found here; the next Route goes
  // there. The caller may stop the search.
  ScoutPtr Seek(int64_t every_us, std::function<ChannelPtr(uint64_t turn)> other, std::function<void()> found);
  // It may come back with its state: its graphs must then be sent again.
  bool may_return();
  // That it has announced last; 0: nobody takes it over, or it has not been asked yet.
  uint64_t epoch();
  Retelling& retelling() { return *retelling_; }

 private:
  enum class State { kUnknown, kAsking, kChannel, kGrpc };
  void Find(const SidePtr& side, Routed routed);
  // Until a task that is lost answers over gRPC, or others say where it is, at most until `deadline_ns` of
  // Clock::Real(); then asks.
  struct Return;
  // shared_ptr: std::function wants copies.
  using ReturnPtr = std::shared_ptr<Return>;
  void AwaitReturn(const SidePtr& side, int64_t deadline_ns);
  void AwaitOverGrpc(const ReturnPtr& awaited);
  void AwaitSoon(const ReturnPtr& awaited);
  // Asks the process that was the last to have the task, and is not where the cluster says: its connection may be lost.
  void AwaitAtPlace(const ReturnPtr& awaited);
  // `awaited` null: the answer counts, whatever it is.
  void Ask(const SidePtr& side, const ReturnPtr& awaited);
  // What a task reports about itself, and others about it: the later epoch counts. Fails if that one is lost.
  TfStatus Compare(PortWords* words);
  // Reported by another task. False: it is not newer than what was found here before.
  bool IsFoundElsewhere(PortWords* words);
  // `deadline_ns`: until then it is looked for again, if it has moved on meanwhile.
  void Answered(const SidePtr& side, const TfStatus& status, bool has_plugin, PortWords words, int64_t deadline_ns);
  void Settle(const TfStatus& status, bool has_plugin, const PortWords& words, ChannelPtr channel);
  void LookFor();
  void ForgetSessions();
  void BeginCall(const char* what, observe::Event* call) const;
  // Where the data port is: as .endpoint_map says, as the task does, or at its host in the cluster.
  transport::Address Place(const PortWords& words) const;
  ChannelPtr MakeChannel(const PortWords& words);

  task::Task* const task_;
  const Options options_;
  const TicketBookPtr tickets_ = std::make_shared<TicketBook>();
  Mutex mutex_;
  State state_ FUSEWIRE_GUARDED_BY(mutex_) = State::kUnknown;
  bool fuses_ FUSEWIRE_GUARDED_BY(mutex_) = false;
  bool has_lost_ FUSEWIRE_GUARDED_BY(mutex_) = false;    // a channel, and has no new one
  bool has_warned_ FUSEWIRE_GUARDED_BY(mutex_) = false;  // that the way is gRPC
  ChannelPtr channel_ FUSEWIRE_GUARDED_BY(mutex_);
  std::weak_ptr<Channel> lost_ FUSEWIRE_GUARDED_BY(mutex_);  // the last one that was
  std::vector<Routed> waiting_ FUSEWIRE_GUARDED_BY(mutex_);
  std::map<std::string, SidePtr> sides_ FUSEWIRE_GUARDED_BY(mutex_);  // of the sessions
  DataPort last_ FUSEWIRE_GUARDED_BY(mutex_);                         // that it has announced
  // shared_ptr: it is told while the peer may go.
  const std::shared_ptr<Retelling> retelling_ = std::make_shared<Retelling>();
};
// shared_ptr: an answer to its question for the data port may come after its server's interest in it.
using PeerPtr = std::shared_ptr<Peer>;

// A search for the way to a task that can be cancelled: a request for a data port has no deadline, and a task that
// hangs does not answer.
// Home: any thread. Owns: itself, shared with all that may still end it. Fails: as its request, or with the reason of
// GiveUp.
class Search : public std::enable_shared_from_this<Search> {
 public:
  // `found` is called once: in Begin, by the request's answer, or, after GiveUp, on another thread.
  explicit Search(Routed found) : found_(std::move(found)) {}
  Search(const Search&) = delete;

  // Once. `ask` calls its argument once, inside or later; it is not called if the search was given up before.
  void Begin(const std::function<void(Routed)>& ask);
  // Any thread, at any time, even under a lock that `found` takes: it calls nothing inside.
  void GiveUp(const TfStatus& why);
  // The reason if it was given up, otherwise ok.
  TfStatus status();

 private:
  void End(const TfStatus& status, ChannelPtr channel);

  Mutex mutex_;
  bool is_waiting_ FUSEWIRE_GUARDED_BY(mutex_) = false;  // Begin has returned, or is about to
  TfStatus why_ FUSEWIRE_GUARDED_BY(mutex_);             // not ok: it was given up
  Routed found_ FUSEWIRE_GUARDED_BY(mutex_);             // null once it has ended
};
// shared_ptr: the answer may come after all waiters have left.
using SearchPtr = std::shared_ptr<Search>;

}  // namespace fusewire::tf
