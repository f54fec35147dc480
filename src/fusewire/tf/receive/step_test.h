// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// For tests of steps: a worker's session in a cluster with one other task, which the test plays, and the
// rendezvous of its steps.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include <absl/strings/str_cat.h>
#include <tensorflow/core/common_runtime/device_mgr.h>
#include <tensorflow/core/distributed_runtime/graph_mgr.h>
#include <tensorflow/core/distributed_runtime/worker_env.h>
#include <tensorflow/core/distributed_runtime/worker_session.h>
#include <tensorflow/core/framework/collective.h>
#include <tensorflow/core/framework/function.h>
#include <tensorflow/core/lib/core/threadpool.h>
#include "fusewire/tf/bridge/threads_test.h"
#include "fusewire/tf/peer/grpc_test.h"
#include "fusewire/tf/peer/world_test.h"
#include "fusewire/tf/receive/rendezvous.h"

namespace fusewire::tf {

// Real reactors, real sockets.
inline std::unique_ptr<task::Task> StartTask(const std::string& name) {
  task::TaskOptions options;
  options.pipe.name = name;
  options.pool.name = name;
  options.pool.reactors = 2;
  options.wire = task::TransportChoice::kTcp;
  auto task = task::Task::Start(std::move(options));
  EXPECT_TRUE(task.ok()) << task.status().ToString();
  return std::move(task).value();
}

// As a task has it: for as long as its process lives, and so longer than whatever is still under way on it.
inline task::Task* WorkersTask() {
  static task::Task* task = StartTask("worker").release();
  return task;
}

// As a worker cache of ours has them.
class WorkerWithWays final : public FakeWorker, public HasWays {
 public:
  explicit WorkerWithWays(Ways ways) : ways_(std::move(ways)) {}
  const Ways& ways() const override { return ways_; }

 private:
  const Ways ways_;
};

// The task whose steps they are.
class StepTask {
 public:
  // `grpc` is the gRPC way to its peer, which has this address in the cluster.
  StepTask(task::Task* task, const std::string& address, std::unique_ptr<FakeWorker> grpc,
           int64_t patience_ns = 2 * kSecondNs, int64_t recovery_ns = 0)
      : grpc_(std::make_shared<FakeCache>(kPeerTask, std::move(grpc))),
        devices_(tensorflow::DeviceFactory::NewDevice("CPU", tensorflow::SessionOptions(), kOwnTask)),
        pool_(&threads_) {
    env.env = tensorflow::Env::Default();
    env.device_mgr = &devices_;
    env.compute_pool = &pool_;
    Peer::Options options;
    options.target = kPeerTask;
    options.address = address;
    options.patience_ns = patience_ns;
    options.recovery_ns = recovery_ns;
    Ways ways;
    ways.peer = std::make_shared<Peer>(task, std::move(options));
    ways.side = std::make_shared<GrpcSide>(grpc_, kPeerTask);
    ways.log = std::make_shared<tensorflow::WorkerCacheLogger>();
    peer = ways.peer;
    session = tensorflow::WorkerSession::CreateWithBorrowedDeviceMgr(
        "session", kOwnTask, std::make_unique<FakeCache>(kPeerTask, std::make_unique<WorkerWithWays>(std::move(ways))),
        &devices_, nullptr, nullptr, [](tensorflow::WorkerSession*, bool, tensorflow::DeviceMgr*) {
          return std::unique_ptr<tensorflow::DistributedFunctionLibraryRuntime>();
        });
    manager = std::make_unique<RendezvousMgr>(&env);
  }

  FakeWorker& grpc() { return grpc_->worker(); }
  tensorflow::Device* cpu() { return devices_.ListDevices().front(); }

 private:
  // In the order in which they need each other. shared_ptr: as sessions hold it.
  const std::shared_ptr<FakeCache> grpc_;
  tensorflow::StaticDeviceMgr devices_;
  TestThreads threads_{2};
  tensorflow::thread::ThreadPool pool_;

 public:
  tensorflow::WorkerEnv env;
  PeerPtr peer;
  // shared_ptr: as TensorFlow makes it.
  std::shared_ptr<tensorflow::WorkerSession> session;
  std::unique_ptr<RendezvousMgr> manager;
};

// In a loopback world.
class StepWorld {
 public:
  explicit StepWorld(bool has_peer = true) : StepWorld(has_peer, 2 * kSecondNs, 0) {}
  StepWorld(bool has_peer, int64_t patience_ns, int64_t recovery_ns, DataWorld::Methods methods = nullptr,
            uint64_t seed = 1)
      : world(has_peer, std::move(methods), seed),
        task(world.worker.get(), "ps:2222", std::make_unique<FakeWorker>(), patience_ns, recovery_ns) {}
  // A one-way call holds its channel until its timeout.
  ~StepWorld() { world.world.RunFor(20 * kSecondNs); }

  FakeWorker& grpc() { return task.grpc(); }
  // The port of a data plane, 0 for none, and the peer's incarnation.
  void AnswerPort(uint16_t port = 5555) {
    ASSERT_FALSE(grpc().asked.empty());
    PortWords words;
    words.port = port;
    words.incarnation = world.incarnation;
    words.fuses = true;
    words.state = state;
    grpc().Answer(words);
  }
  // The way has been found before.
  void KnowPeer(uint16_t port = 5555) {
    Ways ways;
    ASSERT_TRUE(FindWays(task.session->GetSharedWorkerCache(), kPeerTask, &ways).ok());
    task.peer->Route(ways.side, [](const TfStatus&, const ChannelPtr&) {});
    AnswerPort(port);
  }
  // How many questions of this kind have come to the peer.
  size_t CountAsked(uint16_t method) const {
    size_t count = 0;
    for (const DataWorld::Asked& asked : world.asked) count += asked.method == method ? 1 : 0;
    return count;
  }

  DataWorld world;
  StepTask task;
  uint64_t state = 0;  // of the peer's variables, as it announces it
};

// One step: its rendezvous, as a worker holds it.
class Step {
 public:
  // Without a graph it is none that is registered.
  explicit Step(StepTask* task, int64_t number = kStep, const std::string& graph = "") {
    rendezvous_ = graph.empty() ? task->manager->Find(number) : task->manager->Expect(number, "session", graph, false);
    TfStatus initialized = rendezvous_->Initialize(task->session.get());
    EXPECT_TRUE(initialized.ok()) << initialized;
  }

  Rendezvous& operator*() { return *static_cast<Rendezvous*>(rendezvous_.get()); }
  Rendezvous* operator->() { return &**this; }

  void Receive(const std::string& edge, Ending* ending, tensorflow::CancellationManager* cancellation = nullptr) {
    ReceiveKey(KeyOf(edge), ending, cancellation);
  }
  void ReceiveKey(const std::string& text, Ending* ending, tensorflow::CancellationManager* cancellation = nullptr) {
    tensorflow::Rendezvous::ParsedKey key;
    ASSERT_TRUE(tensorflow::Rendezvous::ParseKey(text, &key).ok());
    tensorflow::Rendezvous::Args args;
    args.cancellation_manager = cancellation;
    rendezvous_->RecvAsync(key, args, EndOf(ending));
  }
  static tensorflow::Rendezvous::DoneCallback EndOf(Ending* ending) {
    return [ending](const TfStatus& status, const tensorflow::Rendezvous::Args&, const tensorflow::Rendezvous::Args&,
                    const tensorflow::Tensor& tensor, bool is_dead) {
      ending->status = status;
      ending->tensor = tensor;
      ending->is_dead = is_dead;
      ++ending->ends;
    };
  }

 private:
  TfRef<tensorflow::RemoteRendezvous> rendezvous_;
};

}  // namespace fusewire::tf
