// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/worker_cache.h"

#include <utility>

#include <absl/strings/str_cat.h>
#include "fusewire/base/check.h"
#include "fusewire/tf/server/eager_clients.h"

namespace fusewire::tf {

Directory::Directory(task::Task* task, int64_t patience_ns, bool must_encrypt,
                     std::map<std::string, std::string> endpoints, std::string protocol)
    : task_(task),
      patience_ns_(patience_ns),
      must_encrypt_(must_encrypt),
      endpoints_(std::move(endpoints)),
      protocol_(std::move(protocol)) {}

PeerPtr Directory::Find(const std::string& target, const std::string& address) {
  MutexLock lock(mutex_);
  PeerPtr& peer = peers_[absl::StrCat(target, " ", address)];
  if (peer == nullptr) {
    Peer::Options options;
    options.target = target;
    options.address = address;
    options.protocol = protocol_;
    auto endpoint = endpoints_.find(address);
    if (task_ != nullptr && endpoint != endpoints_.end()) options.data_address = endpoint->second;
    options.patience_ns = patience_ns_;
    options.must_encrypt = must_encrypt_;
    peer = std::make_shared<Peer>(task_, std::move(options));
  }
  return peer;
}

std::map<std::string, std::string> AddressesOf(const tensorflow::ClusterDef& cluster) {
  std::map<std::string, std::string> addresses;
  for (const tensorflow::JobDef& job : cluster.job()) {
    for (const auto& task : job.tasks()) {
      // In TensorFlow, a task may have a list of addresses; the first is its own.
      std::string address = task.second.substr(0, task.second.find(','));
      addresses[absl::StrCat("/job:", job.name(), "/replica:0/task:", task.first)] = address;
    }
  }
  return addresses;
}

TfStatus FindTask(const ClusterPtr& cluster, Directory& directory, const std::string& target, Ways* ways) {
  auto address = cluster->addresses.find(target);
  if (address != cluster->addresses.end() && target != cluster->own_target) {
    ways->side = std::make_shared<GrpcSide>(cluster->grpc, target);
    ways->peer = directory.Find(target, address->second);
  }
  bool found = ways->side != nullptr && ways->side->worker() != nullptr;
  return found ? TfStatus() : absl::InternalError(absl::StrCat("No worker known as ", target));
}

WorkerCache::WorkerCache(ClusterPtr cluster, Directory& directory)
    : WorkerCacheWrapper(cluster->grpc.get()),
      cluster_(std::move(cluster)),
      log_(std::make_shared<tensorflow::WorkerCacheLogger>()),
      directory_(directory) {}

RemoteWorker* WorkerCache::FindOurs(const std::string& target) {
  MutexLock lock(mutex_);
  auto found = workers_.find(target);
  if (found != workers_.end()) return found->second.get();
  Ways ways;
  if (!FindTask(cluster_, directory_, target, &ways).ok()) return nullptr;
  FUSEWIRE_DCHECK(ways.peer != nullptr);
  FUSEWIRE_DCHECK(ways.side != nullptr);
  ways.peer->AskAgain();
  ways.log = log_;
  auto worker = std::make_unique<RemoteWorker>(std::move(ways));
  return (workers_[target] = std::move(worker)).get();
}

tensorflow::WorkerInterface* WorkerCache::GetOrCreateWorker(const std::string& target) {
  RemoteWorker* ours = FindOurs(target);
  return ours != nullptr ? ours : cluster_->grpc->GetOrCreateWorker(target);
}

void WorkerCache::ReleaseWorker(const std::string& target, tensorflow::WorkerInterface* worker) {
  if (dynamic_cast<RemoteWorker*>(worker) != nullptr) return;  // ours live as long as the cache
  cluster_->grpc->ReleaseWorker(target, worker);
}

TfStatus WorkerCache::GetEagerClientCache(std::unique_ptr<tensorflow::eager::EagerClientCache>* clients) {
  TfStatus made = cluster_->grpc->GetEagerClientCache(clients);
  if (made.ok() && directory_.must_encrypt()) *clients = std::make_unique<EagerClients>(std::move(*clients));
  return made;
}

void WorkerCache::SetLogging(bool is_on) {
  cluster_->grpc->SetLogging(is_on);
  log_->SetLogging(is_on);
}

void WorkerCache::ClearLogs() {
  cluster_->grpc->ClearLogs();
  log_->ClearLogs();
}

bool WorkerCache::RetrieveLogs(int64_t step, tensorflow::StepStats* stats) {
  // Both replace the current one.
  tensorflow::StepStats ours;
  bool any = cluster_->grpc->RetrieveLogs(step, stats);
  if (!log_->RetrieveLogs(step, &ours)) return any;
  stats->MergeFrom(ours);
  return true;
}

}  // namespace fusewire::tf
