// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Peer is another task of the cluster as our data plane knows it: whether it speaks our wire, and the Line to it.
// Its data port is asked for through the gRPC address that the cluster names, at first use and again after each loss.
// Home: any thread. Owns: the Line of the moment. Fails: a route fails as the gRPC call that asked for it did.
#ifndef FUSEWIRE_TF_PEER_PEER_H_
#define FUSEWIRE_TF_PEER_PEER_H_

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
#include "fusewire/tf/peer/line.h"

namespace fusewire {
namespace tf {

// The question for a task's data port: a Logging call that asks for this step. A task without the plug-in has no logs
// of it; one that has it answers with a step of these words. Port 0: it has none, and speaks gRPC only.
//   port := "fusewire" version:decimal port:decimal incarnation:hex "fuses" group_port:decimal host:hex age:decimal
// with one space between. Whoever reads stops behind what he knows.
class PortWords {
 public:
  uint16_t port = 0;
  uint64_t incarnation = 0;
  // It answers a fused receive over gRPC, see peer/fused.h; the first versions said nothing of it.
  bool fuses = false;
  uint16_t group_port = 0;  // where its collectives are reached, likewise; 0: nowhere
  uint64_t host = 0;        // see transport/shm/host.h, likewise; 0: it does not say
  uint32_t group_age = 0;   // how often its collectives have begun anew, likewise

  static void Ask(tensorflow::LoggingRequest* request);
  static bool IsAsked(const tensorflow::LoggingRequest& request);
  // Whoever can answer can fuse.
  void Answer(tensorflow::LoggingResponse* response) const;
  // False: the task is without the plug-in.
  bool Read(const tensorflow::LoggingResponse& response);
};

// shared_ptr: calls outlive the session that began them, and its cache.
using GrpcCachePtr = std::shared_ptr<tensorflow::WorkerCacheInterface>;

// The gRPC way to a task, from one session's worker cache; it lives for as long as somebody uses it.
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

// With a null line, the way is gRPC.
using Routed = std::function<void(const TfStatus&, LinePtr)>;

class Peer : public std::enable_shared_from_this<Peer> {
 public:
  struct Options {
    std::string target;
    std::string address;       // "host:port", as the cluster names it
    std::string data_address;  // where .endpoint_map says so; else empty
    int64_t patience_ns = 0;
  };
  // `task` outlives the peer. Null: the way is gRPC, whatever the peer speaks.
  Peer(task::Task* task, Options options);

  // Calls `routed` here if the way is known, else once it is. Whoever does not know `side` may not ask.
  void Route(const SidePtr& side, Routed routed);
  // Whether the task answers a fused receive over gRPC, as far as is known. Where it has not been asked in this session
  // it is, and nobody waits for that: the answer counts from the next step on.
  bool Fuses(const SidePtr& side);
  // It has shown that it does not.
  void CannotFuse();
  // The line if there is one that works, or null.
  LinePtr line();
  // A new session: the task may have been restarted with the plug-in.
  void AskAgain();
  bool is_grpc_only() const { return task_ == nullptr; }
  // Its line has ended, and there is no other one yet: it is dead, or stands still. Whoever only tidies up at it need
  // not wait for its answer.
  bool is_lost();

 private:
  enum class State { kUnknown, kAsking, kLine, kGrpc };
  void Find(const SidePtr& side, Routed routed);
  void Answered(const TfStatus& status, const tensorflow::LoggingResponse& response);
  LinePtr MakeLine(const std::string& host, uint16_t port, uint64_t incarnation);

  task::Task* const task_;
  const Options options_;
  Mutex mutex_;
  State state_ FUSEWIRE_GUARDED_BY(mutex_) = State::kUnknown;
  bool fuses_ FUSEWIRE_GUARDED_BY(mutex_) = false;
  bool has_lost_ FUSEWIRE_GUARDED_BY(mutex_) = false;  // a line, and has no new one
  LinePtr line_ FUSEWIRE_GUARDED_BY(mutex_);
  std::vector<Routed> waiting_ FUSEWIRE_GUARDED_BY(mutex_);
};
// shared_ptr: an answer to its question for the data port may come after its server's interest in it.
using PeerPtr = std::shared_ptr<Peer>;

}  // namespace tf
}  // namespace fusewire

#endif  // FUSEWIRE_TF_PEER_PEER_H_
