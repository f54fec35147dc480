// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// For tests of the data plane: a task that sends requests, and one that plays its peer, in a loopback world
// where time is virtual. What the peer receives is kept in `asked` until the test answers it.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <tensorflow/core/common_runtime/device_factory.h>
#include <tensorflow/core/framework/control_flow.h>
#include <tensorflow/core/framework/rendezvous.h>
#include <tensorflow/core/public/session_options.h>
#include "fusewire/reactor/reactor.h"
#include "fusewire/rpc/rpc.h"
#include "fusewire/tf/bridge/status.h"
#include "fusewire/tf/bridge/tensor.h"
#include "fusewire/tf/heads/calls.h"
#include "fusewire/tf/peer/channel.h"
#include "fusewire/tf/peer/keys.h"
#include "fusewire/transport/transport.h"
#include "loopback/loopback.h"

namespace fusewire::tf {

constexpr const char* kPeerTask = "/job:ps/replica:0/task:0";
constexpr const char* kOwnTask = "/job:worker/replica:0/task:0";

inline tensorflow::Device* WorkersCpu() {
  static tensorflow::Device* cpu =
      tensorflow::DeviceFactory::NewDevice("CPU", tensorflow::SessionOptions(), kOwnTask).release();
  return cpu;
}

// The rendezvous key of a tensor that the parameter server sends to the worker.
inline std::string KeyOf(const std::string& edge) {
  return tensorflow::Rendezvous::CreateKey("/job:ps/replica:0/task:0/device:CPU:0", 7,
                                           "/job:worker/replica:0/task:0/device:CPU:0", edge,
                                           tensorflow::FrameAndIter(0, 0));
}

constexpr int64_t kStep = 77;

// How a receive has ended: `ends` is written last.
struct Ending {
  std::atomic<int> ends{0};
  TfStatus status;
  tensorflow::Tensor tensor;
  bool is_dead = false;
};

class ProbeRecv final : public Recv {
 public:
  ProbeRecv(ChannelPtr channel, const std::string& edge, Ending* ending, tensorflow::Device* device = WorkersCpu())
      : Recv(std::move(channel), kStep, KeyOf(edge), PlaceAt(device)), ending_(ending) {}

 private:
  static TensorPlace PlaceAt(tensorflow::Device* device) {
    TensorPlace place;
    place.device = device;
    return place;
  }
  void OnEnd(const TfStatus& status, const tensorflow::Tensor& tensor, bool is_dead) override {
    ending_->status = status;
    ending_->tensor = tensor;
    ending_->is_dead = is_dead;
    ++ending_->ends;
  }
  ~ProbeRecv() override = default;
  Ending* const ending_;
};

inline tensorflow::Tensor Ramp(int64_t count, float first) {
  tensorflow::Tensor tensor(tensorflow::DT_FLOAT, tensorflow::TensorShape({count}));
  for (int64_t i = 0; i < count; ++i) tensor.flat<float>()(i) = first + static_cast<float>(i);
  return tensor;
}

inline void ExpectRamp(const Ending& ending, int64_t count, float first) {
  ASSERT_EQ(ending.ends, 1);
  ASSERT_TRUE(ending.status.ok()) << ending.status;
  ASSERT_EQ(ending.tensor.NumElements(), count);
  for (int64_t i = 0; i < count; ++i) ASSERT_EQ(ending.tensor.flat<float>()(i), first + static_cast<float>(i));
}

// An answer as a peer writes it.
class Answer {
 public:
  Answer& Value(uint64_t index, const tensorflow::Tensor& tensor) {
    Begin(index, kValue);
    EXPECT_TRUE(AppendTensor(tensor, &head, &body).ok());
    return *this;
  }
  Answer& Dead(uint64_t index) { return Begin(index, kDead); }
  Answer& Error(uint64_t index, const TfStatus& status) {
    Begin(index, kError);
    AppendTfStatus(status, &head);
    return *this;
  }
  Answer& Begin(uint64_t index, uint8_t kind) {
    AppendVarint(&head, index);
    head.push_back(static_cast<char>(kind));
    return *this;
  }

  std::string head;
  Buffers body;
};

class DataWorld {
 public:
  struct Asked {
    uint16_t method = 0;
    std::string head;
    Buffers body;
    rpc::Reply reply;
    bool unwanted = false;
  };

  using Methods = std::function<std::vector<rpc::Method>(reactor::Pool& homes)>;
  // With `methods`, the peer is real: it answers by itself.
  explicit DataWorld(bool has_peer = true, Methods methods = nullptr, uint64_t seed = 1)
      : world(seed, transport::LoopbackFaults()), methods_(std::move(methods)) {
    worker_home = world.AddHost("worker");
    ps_home = world.AddHost("ps");
    worker = MakeTask("worker", worker_home, 0);
    if (has_peer) OpenPeer();
  }
  ~DataWorld() { ClosePeer(); }

  void OpenPeer() {
    ps = MakeTask("ps", ps_home, ++incarnation);
    std::vector<rpc::Method> methods = methods_ ? methods_(ps->pool()) : Recorders();
    auto opened = rpc::Server::Open(*ps, {"", 5555}, std::move(methods));
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    server = std::move(opened).value();
  }
  std::vector<rpc::Method> Recorders() {
    std::vector<rpc::Method> methods;
    for (uint16_t number :
         {kReceive, kCleanupGraph, kAbortStep, kPlacePart, kRunPart, kKeepValues, kCreateWorkerSession}) {
      methods.emplace_back();
      methods.back().number = number;
      methods.back().name = "asked";
      methods.back().handle = [this, number](rpc::Request request, rpc::Reply reply) {
        asked.push_back(Asked{number, request.head.ToString(), std::move(request.body), std::move(reply), false});
        Asked& last = asked.back();
        last.reply.OnUnwanted([&last](rpc::Unwanted) { last.unwanted = true; });
      };
    }
    return methods;
  }
  // The peer's task alone, for a server that the test opens there.
  task::Task& MakePeerTask() {
    ps = MakeTask("ps", ps_home, ++incarnation);
    return *ps;
  }
  void ClosePeer() {
    server.reset();
    asked.clear();
    ps.reset();
  }
  void KillPeer() {
    world.KillHost("ps", transport::LoopbackDeath::kReset);
    ClosePeer();
  }
  void RestartPeer() {
    ps_home = world.RestartHost("ps");
    OpenPeer();
  }

  Channel::Options ChannelOptions() {
    Channel::Options options;
    options.address = {"ps", 5555};
    options.target = kPeerTask;
    options.patience_ns = 2 * kSecondNs;
    return options;
  }
  ChannelPtr MakeChannel() { return Channel::Make(*worker, ChannelOptions()); }

  bool RunUntil(UniqueFunction<bool()> done, int64_t limit_ns = 60 * kSecondNs) {
    return world.RunUntil(std::move(done), limit_ns);
  }
  // If other threads than the world's take part, it can't be known when all is done.
  bool RunUntilWithThreads(const std::function<bool()>& done) {
    const int64_t deadline_ns = AddNs(Clock::Real()->NowNs(), 60 * kSecondNs);
    while (!world.RunUntil([&done] { return done(); }, kMillisecondNs)) {
      if (Clock::Real()->NowNs() > deadline_ns) return false;
      std::this_thread::yield();
    }
    return true;
  }
  // The number of questions that have arrived.
  bool AwaitAsked(size_t count) {
    return RunUntil([this, count] { return asked.size() >= count; });
  }

  transport::LoopbackWorld world;
  reactor::Reactor* worker_home = nullptr;
  reactor::Reactor* ps_home = nullptr;
  uint64_t incarnation = 0;  // of the peer
  std::unique_ptr<task::Task> worker, ps;
  std::deque<Asked> asked;  // a deque: callbacks for unwanted answers point into it
  std::unique_ptr<rpc::Server> server;

 private:
  std::unique_ptr<task::Task> MakeTask(const std::string& host, reactor::Reactor* home, uint64_t number) {
    pipe::Options options;
    options.name = host;
    if (number != 0) options.incarnation = number;
    return task::Task::Make(options, reactor::Pool::Around(home), world.MakeTransport(host));
  }
  const Methods methods_;
};

}  // namespace fusewire::tf
