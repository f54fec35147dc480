// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A TensorFlow server whose data plane is ours: TensorFlow's own gRPC server for sessions, eager and coordination, and
// beside it a data port that its peers find through the gRPC one. Or, without a data port, TensorFlow's own whose fused
// receives are one call each.
// Home: any thread. Owns: its task, its data port and its view of the peers. Like every GrpcServer it is not destroyed
// once it has been started. Fails: Init, with the reason.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tensorflow/core/distributed_runtime/rpc/grpc_server_lib.h>
#include <tensorflow/core/distributed_runtime/server_lib.h>
#include "fusewire/base/mutex.h"
#include "fusewire/task/task.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/collective/groups.h"
#include "fusewire/tf/server/hosting.h"
#include "fusewire/tf/server/inquiry.h"
#include "fusewire/tf/server/options.h"
#include "fusewire/tf/server/service.h"
#include "fusewire/tf/server/succession.h"
#include "fusewire/tf/server/worker_cache.h"
#include "fusewire/tf/snapshot/snapshots.h"

namespace fusewire::tf {

// From a ServerDef. With "grpc", a server is TensorFlow's own, except for fused receives.
constexpr const char* kStockProtocol = "grpc";

class Server final : public tensorflow::GrpcServer {
 public:
  // With the other tasks that FUSEWIRE_TASKS gives this process. They start with it.
  static TfStatus Make(const tensorflow::ServerDef& def, const tensorflow::ServerFactory::Options& options,
                       std::unique_ptr<tensorflow::ServerInterface>* out);
  ~Server() override;

  enum class GrpcPort { kOfCluster, kAny };
  // Any thread. Makes a server for another task of the job, in the process that serves the task of `def`; it is not
  // started, and the process keeps it. kAny: the task's place in the cluster is another machine's, and peers are told
  // this one's. `pause_ms_max`: how long steps may stand still while the task moves here from the server that has
  // it; 0: it is left there. AlreadyExists: this process serves the task.
  static TfStatus Host(const tensorflow::ServerDef& def, int task_index, GrpcPort port, Server** out,
                       int64_t pause_ms_max = 0);
  // A thread that may wait. Moves the task to another process.
  TfStatus GiveAwayTask(int64_t pause_ms_max, std::string* said);

  Hosting& hosting() { return hosting_; }

  // The other tasks, and then this one, which then begins to keep snapshots.
  TfStatus Start() override;

  // For another cluster: TensorFlow makes a new manager for collectives, and so does this. The other tasks follow; one
  // that is not in it goes on in its last.
  TfStatus UpdateServerDef(const tensorflow::ServerDef& def) override;

 protected:
  TfStatus WorkerCacheFactory(const tensorflow::WorkerCacheFactoryOptions& options,
                              tensorflow::WorkerCacheInterface** cache) override;
  TfStatus GetHostAndPort(const tensorflow::ServerDef& def, std::string* host, int* port) const override;

 private:
  Server(const tensorflow::ServerDef& def, int home_index, GrpcPort port);
  static TfStatus MakeOne(std::unique_ptr<Server>* server, const tensorflow::ServerFactory::Options& options);
  TfStatus Prepare(const tensorflow::ServerFactory::Options& options);
  // The devices come from the task's snapshots, if it keeps some.
  TfStatus OpenSnapshots(tensorflow::DeviceMgr** devices);
  // Another process has the task, since before this one was made.
  bool is_shell() const { return snapshots_ != nullptr && snapshots_->is_elsewhere(); }
  // Any thread. Another process has the task since that epoch.
  void Yield(uint64_t epoch, bool has_moved);
  // The task moves here. Fails: it stays where it is.
  TfStatus Arrive();
  // This process has the task, and keeps snapshots.
  void Hold();
  void SayWhere(uint64_t epoch);
  TfStatus TakeHere(int task_index, int64_t pause_ms_max, std::string* said);
  std::string DataAddress() const;
  TfStatus OpenDataPort();
  TfStatus OpenGroups();
  TfStatus FindHost();
  TfStatus FindTaskNow(const std::string& task, Ways* ways, std::string* address);
  // TensorFlow has made the cache for another cluster.
  void KeepCluster();
  // Makes the manager for collectives of `cluster`.
  std::unique_ptr<tensorflow::CollectiveExecutorMgrInterface> MakeCollectives(const tensorflow::ConfigProto& config,
                                                                              const tensorflow::WorkerEnv& env,
                                                                              ClusterPtr cluster);
  void AnnouncePort();
  void AnswerInquiries();
  ClusterPtr cluster();
  std::string own_task() const;

  const std::string job_;
  const std::string protocol_;
  ServerSettings settings_;
  NetworkSettings network_;
  std::unique_ptr<Snapshots> snapshots_;  // null: the task keeps none
  std::unique_ptr<task::Task> data_task_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<CollectiveHome> groups_;
  std::unique_ptr<Directory> directory_;
  // The caches through which collectives call other tasks, with the time when each was made. Not the session's cache,
  // which is destroyed with its cluster: TensorFlow's resolver uses its cache once more after an aborted call.
  std::vector<std::pair<int64_t, std::unique_ptr<WorkerCache>>> collective_caches_;
  struct Now {
    Mutex mutex;
    ClusterPtr cluster FUSEWIRE_GUARDED_BY(mutex);
  } now_;
  Worker* worker_ = nullptr;  // the base class owns it
  std::unique_ptr<Inquiries> inquiries_;
  Hosting hosting_;
  Succession succession_;
};

}  // namespace fusewire::tf
