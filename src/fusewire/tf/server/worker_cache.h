// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A session's view of the cluster: TensorFlow's own gRPC cache, with our RemoteWorkers instead of its own. Their peers
// belong to the server, so that all its sessions share one connection to each.
// Home: any thread. Owns: the gRPC cache and the RemoteWorkers. Fails: an unknown task is a null worker.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <tensorflow/core/distributed_runtime/eager/eager_client.h>
#include <tensorflow/core/distributed_runtime/worker_cache_wrapper.h>
#include <tensorflow/core/protobuf/cluster.pb.h>
#include "fusewire/base/mutex.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/peer/peer.h"
#include "fusewire/tf/server/remote_worker.h"

namespace fusewire::tf {

// All tasks that a server has met, by the address that a cluster gives them.
class Directory {
 public:
  struct Options {
    int64_t patience_ns = 0, recovery_ns = 0;  // see Channel::Options
    bool must_encrypt = false;
    bool is_elastic = false;  // another process may take a task over
    std::map<std::string, std::string> endpoints;
    std::string protocol;            // of this task, for the log
    WhereaboutsPtr known = nullptr;  // null: its own
  };
  // `task` outlives the directory. Null: everything goes over gRPC.
  Directory(task::Task* task, Options options);
  PeerPtr Find(const std::string& target, const std::string& address);
  const WhereaboutsPtr& known() const { return options_.known; }
  bool must_encrypt() const { return options_.must_encrypt; }
  bool is_elastic() const { return options_.is_elastic; }

 private:
  task::Task* const task_;
  Options options_;  // as they were given, but for `known`
  struct Peers {
    // Another living peer that knows where tasks are, a different one each turn; never `target`. Null if none does.
    ChannelPtr Other(const std::string& target, uint64_t turn);

    Mutex mutex;
    // By target and address; shared_ptr: calls hold them too.
    std::map<std::string, PeerPtr> all FUSEWIRE_GUARDED_BY(mutex);
  };
  // shared_ptr: a peer that looks for its task asks the others, perhaps after our end.
  const std::shared_ptr<Peers> peers_ = std::make_shared<Peers>();
};

// "/job:ps/replica:0/task:1" -> "host:port"
std::map<std::string, std::string> AddressesOf(const tensorflow::ClusterDef& cluster);

// The tasks of one cluster, and the gRPC ways to them.
struct Cluster {
  GrpcCachePtr grpc;
  std::string own_target;
  std::map<std::string, std::string> addresses;
};
// shared_ptr: TensorFlow drops a server's cache when its cluster changes, perhaps while a thread looks up a task.
using ClusterPtr = std::shared_ptr<const Cluster>;
// Fails if the cluster has no such task, or if it is our own.
TfStatus FindTask(const ClusterPtr& cluster, Directory& directory, const std::string& target, Ways* ways);
// The ways to the tasks of the same job, but for `target` and our own, in order.
std::vector<Ways> FindSiblings(const ClusterPtr& cluster, Directory& directory, const std::string& target);

// Under TLS: TensorFlow's gRPC clients of eager contexts, which send no tensor. CopyEagerTensorsOverTheDataPort has
// made TensorFlow copy tensors by _Send and _Recv. A call that still has one in its message, or would get one in the
// answer, is refused. A message may have programs (with their constants) and handles of variables.
// Home: any thread. Owns: the gRPC clients. Fails: a refused call, with the reason; any other, as gRPC's.
class EagerClients final : public tensorflow::eager::EagerClientCache {
 public:
  explicit EagerClients(std::unique_ptr<tensorflow::eager::EagerClientCache> grpc);

  // A task's is the same each time: TensorFlow compares them.
  TfStatus GetClient(const std::string& target,
                     tensorflow::core::RefCountPtr<tensorflow::eager::EagerClient>* client) override;

 private:
  const std::unique_ptr<tensorflow::eager::EagerClientCache> grpc_;
  Mutex mutex_;
  std::map<std::string, tensorflow::core::RefCountPtr<tensorflow::eager::EagerClient>> clients_
      FUSEWIRE_GUARDED_BY(mutex_);
};

class WorkerCache final : public tensorflow::WorkerCacheWrapper {
 public:
  // `directory` outlives the cache.
  WorkerCache(ClusterPtr cluster, Directory& directory);
  const ClusterPtr& cluster() const { return cluster_; }

  tensorflow::WorkerInterface* GetOrCreateWorker(const std::string& target) override;
  void ReleaseWorker(const std::string& target, tensorflow::WorkerInterface* worker) override;

  // Under TLS they send no tensors.
  TfStatus GetEagerClientCache(std::unique_ptr<tensorflow::eager::EagerClientCache>* clients) override;

  // Traced tensors come over our wire, or over gRPC.
  void SetLogging(bool is_on) override;
  void ClearLogs() override;
  bool RetrieveLogs(int64_t step, tensorflow::StepStats* stats) override;

 private:
  RemoteWorker* FindOurs(const std::string& target);

  const ClusterPtr cluster_;
  const TransferLogPtr log_;
  Directory& directory_;
  Mutex mutex_;
  std::map<std::string, std::unique_ptr<RemoteWorker>> workers_ FUSEWIRE_GUARDED_BY(mutex_);
};

}  // namespace fusewire::tf
