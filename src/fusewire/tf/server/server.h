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
#include "fusewire/tf/server/inquiry.h"
#include "fusewire/tf/server/options.h"
#include "fusewire/tf/server/service.h"
#include "fusewire/tf/server/worker_cache.h"
#include "fusewire/tf/snapshot/snapshots.h"

namespace fusewire::tf {

// From a ServerDef. With "grpc", a server is TensorFlow's own, except for fused receives.
constexpr const char* kStockProtocol = "grpc";

class Server final : public tensorflow::GrpcServer {
 public:
  static TfStatus Make(const tensorflow::ServerDef& def, const tensorflow::ServerFactory::Options& options,
                       std::unique_ptr<tensorflow::ServerInterface>* out);
  ~Server() override;

  // For another cluster: TensorFlow makes a new manager for collectives, and so does this.
  TfStatus UpdateServerDef(const tensorflow::ServerDef& def) override;

 protected:
  TfStatus WorkerCacheFactory(const tensorflow::WorkerCacheFactoryOptions& options,
                              tensorflow::WorkerCacheInterface** cache) override;

 private:
  explicit Server(const tensorflow::ServerDef& def);
  TfStatus Prepare(const tensorflow::ServerFactory::Options& options);
  // The devices come from the task's snapshots, if it keeps some.
  TfStatus OpenSnapshots(tensorflow::DeviceMgr** devices);
  bool IsServed(const Owner& owner);
  void OnFenced(const Owner& successor);
  std::string DataAddress() const;
  TfStatus OpenDataPort();
  TfStatus OpenGroups();
  TfStatus FindHost();
  TfStatus FindGrpc(const std::string& task, std::string* address, SidePtr* side);
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
  void StartWatch();
  void ShowTask();
  void CutGraphs();
  std::string own_task() const;
  bool must_encrypt() const { return !settings_.protection.tls.certificate.empty(); }
  bool Reaches(const std::string& task);
  // Which state this task has: a server that comes back with the same number has kept it. 0: it keeps none.
  uint64_t state() const { return snapshots_ == nullptr ? 0 : snapshots_->state(); }

  const std::string job_;
  const std::string protocol_;
  ServerSettings settings_;
  NetworkSettings network_;
  std::string listen_host_;               // of the data port; empty: every interface
  std::unique_ptr<Snapshots> snapshots_;  // null: the task keeps none
  std::unique_ptr<task::Task> data_task_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<CollectiveHome> groups_;
  std::unique_ptr<Directory> directory_;
  // The caches through which collectives call other tasks, with the time when each was made. Not the session's cache,
  // which is destroyed with its cluster: TensorFlow's resolver uses its cache once more after an aborted call.
  std::vector<std::pair<int64_t, std::unique_ptr<WorkerCache>>> collective_caches_;
  Mutex cluster_mutex_;
  ClusterPtr cluster_ FUSEWIRE_GUARDED_BY(cluster_mutex_);
  Worker* worker_ = nullptr;  // the base class owns it
  std::unique_ptr<Inquiries> inquiries_;
};

}  // namespace fusewire::tf
