// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/worker_cache.h"

#include <utility>

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <tensorflow/core/common_runtime/eager/kernel_and_device.h>
#include <tensorflow/core/framework/types.h>
#include "fusewire/base/check.h"

namespace fusewire::tf {

Directory::Directory(task::Task* task, Options options) : task_(task), options_(std::move(options)) {
  if (options_.known == nullptr) options_.known = std::make_shared<Whereabouts>();
}

PeerPtr Directory::Find(const std::string& target, const std::string& address) {
  MutexLock lock(peers_->mutex);
  PeerPtr& peer = peers_->all[absl::StrCat(target, " ", address)];
  if (peer == nullptr) {
    Peer::Options options;
    options.target = target;
    options.address = address;
    options.protocol = options_.protocol;
    auto endpoint = options_.endpoints.find(address);
    if (task_ != nullptr && endpoint != options_.endpoints.end()) options.data_address = endpoint->second;
    options.patience_ns = options_.patience_ns;
    options.recovery_ns = options_.recovery_ns;
    options.must_encrypt = options_.must_encrypt;
    options.known = options_.known;
    options.other = [weak = std::weak_ptr(peers_), target](uint64_t turn) {
      const auto peers = weak.lock();
      return peers == nullptr ? nullptr : peers->Other(target, turn);
    };
    peer = std::make_shared<Peer>(task_, std::move(options));
  }
  return peer;
}

ChannelPtr Directory::Peers::Other(const std::string& target, uint64_t turn) {
  std::vector<PeerPtr> others;
  {
    MutexLock lock(mutex);
    for (const auto& [name, peer] : all) {
      if (!absl::StartsWith(name, absl::StrCat(target, " "))) others.push_back(peer);
    }
  }
  std::vector<ChannelPtr> living;
  for (const PeerPtr& peer : others) {
    ChannelPtr channel = peer->channel();
    if (channel != nullptr && channel->options().epoch != 0) living.push_back(std::move(channel));
  }
  return living.empty() ? nullptr : living[turn % living.size()];
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

std::vector<Ways> FindSiblings(const ClusterPtr& cluster, Directory& directory, const std::string& target) {
  const std::string job = target.substr(0, target.rfind(':') + 1);  // "/job:ps/replica:0/task:"
  std::vector<Ways> siblings;
  for (const auto& [task, address] : cluster->addresses) {
    Ways ways;
    if (task != target && absl::StartsWith(task, job) && FindTask(cluster, directory, task, &ways).ok())
      siblings.push_back(std::move(ways));
  }
  return siblings;
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
  RemoteWorker::Siblings siblings;
  if (directory_.is_elastic()) {
    siblings = [cluster = cluster_, &directory = directory_, target] {
      return FindSiblings(cluster, directory, target);
    };
  }
  auto worker = std::make_unique<RemoteWorker>(std::move(ways), std::move(siblings));
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

namespace {

namespace eager = tensorflow::eager;
using tensorflow::CallOptions;
using tensorflow::StatusCallback;

// What the sender of a tensor within a message can do about it.
constexpr const char* kInsteadOfPacking = "give each task its own tensor, instead of packing them into one";
constexpr const char* kInsteadOfNesting =
    "pass the tensor to the outermost tf.function, and let that one place operations on tasks";
constexpr const char* kInsteadOfSending =
    "leave TF_EAGER_REMOTE_USE_SEND_TENSOR_RPC and TF_SEND_AS_PROTOS_WHEN_POSSIBLE unset after import fusewire";

// A handle has a variable's name, type and shape, and no value.
bool IsData(const tensorflow::TensorProto& tensor) { return tensor.dtype() != tensorflow::DT_RESOURCE; }

TfStatus Refused(const std::string& target, const std::string& what, const char* next) {
  return absl::FailedPreconditionError(
      absl::StrCat(target, ": TensorFlow would send ", what,
                   " over gRPC, and FUSEWIRE_TLS_CERT is set here: nothing goes to it unencrypted; next: ", next,
                   "; see: fusewire explain trust#tensorflow-2"));
}

std::string Named(const char* what, const tensorflow::TensorProto& tensor) {
  return absl::StrCat(what, " of type ", tensorflow::DataTypeString(tensor.dtype()));
}

TfStatus Check(const std::string& target, const eager::Operation& operation) {
  const char* next = operation.is_component_function() ? kInsteadOfNesting : kInsteadOfSending;
  for (const eager::Operation::Input& input : operation.op_inputs()) {
    if (input.has_tensor() && IsData(input.tensor()))
      return Refused(target, absl::StrCat(Named("an argument", input.tensor()), " of ", operation.name()), next);
  }
  // Without a number under which the other task could keep them, it answers with the results.
  if (operation.id() == tensorflow::kInvalidOpId && operation.is_function())
    return Refused(target, absl::StrCat("back the results of ", operation.name()), next);
  return TfStatus();
}

TfStatus Check(const std::string& target, const eager::EnqueueRequest& request) {
  for (const eager::QueueItem& item : request.queue()) {
    if (item.has_operation()) {
      TF_RETURN_IF_ERROR(Check(target, item.operation()));
    }
    for (const tensorflow::TensorProto& tensor : item.send_tensor().tensors()) {
      if (IsData(tensor)) return Refused(target, Named("a tensor", tensor), kInsteadOfSending);
    }
    for (const eager::SendPackedHandleOp::Handle& handle : item.send_packed_handle().handles()) {
      if (!handle.has_local_handle() || !IsData(handle.local_handle().tensor())) continue;
      return Refused(target, Named("a packed tensor", handle.local_handle().tensor()), kInsteadOfPacking);
    }
  }
  return TfStatus();
}

// Its messages have no tensor. Like TensorFlow's own, it lives until the answers to its calls.
class Client final : public eager::EagerClient {
 public:
  Client(std::string target, tensorflow::core::RefCountPtr<eager::EagerClient> grpc)
      : target_(std::move(target)), grpc_(std::move(grpc)) {
    FUSEWIRE_CHECK(grpc_ != nullptr);
  }

  void CreateContextAsync(const eager::CreateContextRequest* request, eager::CreateContextResponse* response,
                          StatusCallback done) override {
    grpc_->CreateContextAsync(request, response, Held(std::move(done)));
  }
  void CreateContextAsync(const eager::CreateContextRequest* request, eager::CreateContextResponse* response,
                          StatusCallback done, int64_t timeout_ms, int retries) override {
    grpc_->CreateContextAsync(request, response, Held(std::move(done)), timeout_ms, retries);
  }
  void UpdateContextAsync(const eager::UpdateContextRequest* request, eager::UpdateContextResponse* response,
                          StatusCallback done) override {
    grpc_->UpdateContextAsync(request, response, Held(std::move(done)));
  }
  void WaitQueueDoneAsync(const eager::WaitQueueDoneRequest* request, eager::WaitQueueDoneResponse* response,
                          StatusCallback done) override {
    grpc_->WaitQueueDoneAsync(request, response, Held(std::move(done)));
  }
  void KeepAliveAsync(const eager::KeepAliveRequest* request, eager::KeepAliveResponse* response,
                      StatusCallback done) override {
    grpc_->KeepAliveAsync(request, response, Held(std::move(done)));
  }
  void CloseContextAsync(const eager::CloseContextRequest* request, eager::CloseContextResponse* response,
                         StatusCallback done) override {
    grpc_->CloseContextAsync(request, response, Held(std::move(done)));
  }

  void EnqueueAsync(CallOptions* options, const eager::EnqueueRequest* request, eager::EnqueueResponse* response,
                    StatusCallback done) override {
    TfStatus sane = Check(target_, *request);
    if (!sane.ok()) return done(sane);
    grpc_->EnqueueAsync(options, request, response, Held(std::move(done)));
  }
  void StreamingEnqueueAsync(bool is_streaming, CallOptions* options, const eager::EnqueueRequest* request,
                             eager::EnqueueResponse* response, StatusCallback done) override {
    TfStatus sane = Check(target_, *request);
    if (!sane.ok()) return done(sane);
    grpc_->StreamingEnqueueAsync(is_streaming, options, request, response, Held(std::move(done)));
  }
  void RunComponentFunctionAsync(CallOptions* options, const eager::RunComponentFunctionRequest* request,
                                 eager::RunComponentFunctionResponse* response, StatusCallback done) override {
    TfStatus sane = Check(target_, request->operation());
    if (!sane.ok()) return done(sane);
    grpc_->RunComponentFunctionAsync(options, request, response, Held(std::move(done)));
  }

  bool allow_multiple_pending_requests() const override { return grpc_->allow_multiple_pending_requests(); }

 private:
  StatusCallback Held(StatusCallback done) {
    Ref();
    return [this, done = std::move(done)](const TfStatus& status) {
      done(status);
      Unref();
    };
  }

  const std::string target_;
  const tensorflow::core::RefCountPtr<eager::EagerClient> grpc_;
};

}  // namespace

EagerClients::EagerClients(std::unique_ptr<eager::EagerClientCache> grpc) : grpc_(std::move(grpc)) {
  FUSEWIRE_CHECK(grpc_ != nullptr);
}

TfStatus EagerClients::GetClient(const std::string& target, tensorflow::core::RefCountPtr<eager::EagerClient>* client) {
  tensorflow::core::RefCountPtr<eager::EagerClient> grpc;
  TF_RETURN_IF_ERROR(grpc_->GetClient(target, &grpc));
  MutexLock lock(mutex_);
  auto& ours = clients_[target];
  if (ours == nullptr) ours.reset(new Client(target, std::move(grpc)));
  ours->Ref();
  client->reset(ours.get());
  return TfStatus();
}

}  // namespace fusewire::tf
