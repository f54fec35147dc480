// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// For tests of calls: calls that store how they ended, bytes that can be recognised, and two whole tasks
// in a loopback world, where time is virtual and faults come when they are asked for.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/log.h"
#include "fusewire/base/random.h"
#include "fusewire/pipe/pipe_context.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/rpc/rpc.h"
#include "fusewire/transport/transport.h"
#include "loopback/loopback.h"

namespace fusewire::rpc {

// ---- bytes that can be recognised ----

inline uint64_t PatternWord(uint64_t seed, uint64_t index) {
  uint64_t mixed = (index + 1) * 0x9e3779b97f4a7c15ULL ^ seed * 0xbf58476d1ce4e5b9ULL;
  return mixed ^ mixed >> 29;
}

inline Buffer PatternBuffer(size_t size, uint64_t seed) {
  Buffer buffer = Buffer::TryAllocate(size);
  EXPECT_EQ(buffer.size(), size);
  for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
    uint64_t word = PatternWord(seed, at / sizeof(uint64_t));
    std::memcpy(buffer.bytes().data + at, &word, std::min(sizeof(word), size - at));
  }
  return buffer;
}

inline bool HasPattern(ConstBytes bytes, uint64_t seed) {
  for (size_t at = 0; at < bytes.size; at += sizeof(uint64_t)) {
    uint64_t word = PatternWord(seed, at / sizeof(uint64_t));
    if (std::memcmp(bytes.data + at, &word, std::min(sizeof(word), bytes.size - at)) != 0) return false;
  }
  return true;
}

// One segment for each size; segment i has the pattern of seed + i.
inline Buffers PatternSegments(const std::vector<size_t>& sizes, uint64_t seed) {
  Buffers segments;
  for (size_t i = 0; i < sizes.size(); ++i) segments.push_back(PatternBuffer(sizes[i], seed + i));
  return segments;
}

inline ::testing::AssertionResult AreSegments(const Buffers& got, const std::vector<size_t>& sizes, uint64_t seed) {
  if (got.size() != sizes.size()) {
    return ::testing::AssertionFailure() << got.size() << " segments instead of " << sizes.size();
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (got[i].size() != sizes[i]) {
      return ::testing::AssertionFailure()
             << "segment " << i << " has " << got[i].size() << " bytes instead of " << sizes[i];
    }
    if (!HasPattern(got[i].bytes(), seed + i)) return ::testing::AssertionFailure() << "segment " << i << " differs";
  }
  return ::testing::AssertionSuccess();
}

// ---- calls that remember ----

class ProbeCall : public Call {
 public:
  explicit ProbeCall(uint16_t method_in, std::string head_in = std::string())
      : Call(method_in), request_head(std::move(head_in)) {
    head = request_head;
  }

  struct Part {
    std::string head;
    Buffers body;
  };
  const std::string request_head;
  std::atomic<int> dones{0};
  Status status;
  std::vector<Part> parts;
  UniqueFunction<void()> then;  // in OnDone
  UniqueFunction<Result<pipe::Landing>(ConstBytes head, const SegmentSizes& sizes)> land;
  UniqueFunction<Result<pipe::Landing>(ConstBytes head, const SegmentSizes& sizes)> land_part;
  UniqueFunction<void()> on_part;

 protected:
  Result<pipe::Landing> Land(ConstBytes land_head, const SegmentSizes& sizes) override {
    return land ? land(land_head, sizes) : Call::Land(land_head, sizes);
  }
  Result<pipe::Landing> LandPart(ConstBytes land_head, const SegmentSizes& sizes) override {
    return land_part ? land_part(land_head, sizes) : Call::LandPart(land_head, sizes);
  }
  void OnPart(ConstBytes part_head, Buffers part) override {
    EXPECT_EQ(dones.load(), 0);
    parts.push_back({part_head.ToString(), std::move(part)});
    if (on_part) on_part();
  }
  void OnDone(Status done) override {
    status = std::move(done);
    UniqueFunction<void()> next = std::move(then);
    dones.fetch_add(1);
    if (next) next();
  }
};

// ---- methods that every test may use ----

constexpr uint16_t kEcho = 1;    // answers at once with what came
constexpr uint16_t kHold = 2;    // the test answers
constexpr uint16_t kRefuse = 3;  // a typed error with every field
constexpr uint16_t kDrop = 4;    // forgets its Reply
constexpr uint16_t kStrange = 999;

inline Method MakeMethod(uint16_t number, std::string name, UniqueFunction<void(Request, Reply)> handle) {
  Method method;
  method.number = number;
  method.name = std::move(name);
  method.handle = std::move(handle);
  return method;
}

inline Method EchoMethod() {
  return MakeMethod(kEcho, "echo", [](Request request, Reply reply) {
    reply.Send(Status::Ok(), request.head, std::move(request.body));
  });
}

inline Method RefuseMethod() {
  return MakeMethod(kRefuse, "refuse", [](Request, Reply reply) {
    reply.Send(Status::Application(77, "the table is not here")
                   .Peer("ps:3 (10.1.2.3:4567)")
                   .Phase("looking for the table")
                   .Next("load the table first"));
  });
}

inline Method DropMethod() {
  return MakeMethod(kDrop, "drop", [](Request, Reply) {});
}

// ---- two tasks in a world of their own ----

inline void AtHome(reactor::Reactor* home, reactor::Task task) { home->Run(std::move(task)); }

struct WorldOptions {
  uint64_t seed = 1;
  transport::LoopbackFaults faults;
  pipe::Options client_pipe, server_pipe;
  ClientOptions client;
  ServerOptions server;
  UniqueFunction<std::vector<Method>()> more_methods;  // besides the four above
  bool with_server = true;
};

// Cuts every write and read into random pieces, as a busy network would.
inline transport::LoopbackFaults Splitting() {
  transport::LoopbackFaults faults;
  faults.split = true;
  faults.late_answer_chance = 0.2;
  return faults;
}

class RpcWorld {
 public:
  struct Held {
    Request request;
    std::string head;
    Reply reply;
    bool unwanted = false;
  };

  explicit RpcWorld(WorldOptions options = WorldOptions())
      : world(options.seed, options.faults), options_(std::move(options)) {
    options_.client_pipe.name = "worker:0";
    options_.server_pipe.name = "ps:0";
    client_home = world.AddHost("client");
    server_home = world.AddHost("server");
    client_task = MakeTask("client", client_home, options_.client_pipe);
    if (options_.with_server) OpenServer();
    client = std::make_unique<Client>(*client_task, transport::Address{"server", 5555}, options_.client);
  }
  ~RpcWorld() {
    client.reset();
    CloseServer();
  }

  void OpenServer() {
    server_task = MakeTask("server", server_home, options_.server_pipe);
    std::vector<Method> methods;
    methods.push_back(EchoMethod());
    methods.push_back(MakeMethod(kHold, "hold", [this](Request request, Reply reply) {
      held.push_back(Held{std::move(request), std::string(), std::move(reply), false});
      Held& last = held.back();
      last.head = last.request.head.ToString();
      last.reply.OnUnwanted([&last](Unwanted) { last.unwanted = true; });
    }));
    methods.push_back(RefuseMethod());
    methods.push_back(DropMethod());
    if (options_.more_methods) {
      for (Method& method : options_.more_methods()) methods.push_back(std::move(method));
    }
    auto opened = Server::Open(*server_task, {"", 5555}, std::move(methods), options_.server);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    server = std::move(opened).value();
  }
  void CloseServer() {
    server.reset();
    held.clear();
    server_task.reset();
  }
  void KillServer(transport::LoopbackDeath death) {
    world.KillHost("server", death);
    CloseServer();
  }
  void RestartServer() {
    server_home = world.RestartHost("server");
    OpenServer();
  }

  bool RunUntil(UniqueFunction<bool()> done, int64_t limit_ns = 60 * kSecondNs) {
    return world.RunUntil(std::move(done), limit_ns);
  }
  bool Finish(const ProbeCall& call, int64_t limit_ns = 60 * kSecondNs) {
    return RunUntil([&call] { return call.dones.load() > 0; }, limit_ns);
  }
  // Starts the call and runs the world until it has ended.
  ::testing::AssertionResult Ask(ProbeCall* call, int64_t limit_ns = 60 * kSecondNs) {
    int before = call->dones.load();
    client->Start(call);
    if (!RunUntil([call, before] { return call->dones.load() > before; }, limit_ns)) {
      return ::testing::AssertionFailure() << "the call has not ended";
    }
    return ::testing::AssertionSuccess();
  }
  // At the end: nothing is left of the calls, on either side, and no budget is held.
  ::testing::AssertionResult IsClean() {
    world.RunFor(30 * kSecondNs);  // an idle sender gives its credit back with a heartbeat
    if (client->Snapshot().calls_in_flight != 0) return ::testing::AssertionFailure() << "calls at the client";
    if (server != nullptr && server->calls_in_flight() != 0) {
      return ::testing::AssertionFailure() << server->calls_in_flight() << " calls at the server";
    }
    for (task::Task* task : {client_task.get(), server_task.get()}) {
      if (task != nullptr && task->context().receive_budget().used_bytes() != 0) {
        return ::testing::AssertionFailure()
               << task->context().receive_budget().used_bytes() << " bytes of budget held";
      }
    }
    return ::testing::AssertionSuccess();
  }
  int64_t now_ns() { return world.clock()->NowNs(); }

  transport::LoopbackWorld world;
  reactor::Reactor* client_home = nullptr;
  reactor::Reactor* server_home = nullptr;
  std::unique_ptr<task::Task> client_task, server_task;
  std::deque<Held> held;  // by kHold, oldest first
  std::unique_ptr<Server> server;
  std::unique_ptr<Client> client;

 private:
  std::unique_ptr<task::Task> MakeTask(const std::string& host, reactor::Reactor* home, const pipe::Options& pipe) {
    return task::Task::Make(pipe, reactor::Pool::Around(home), world.MakeTransport(host));
  }
  WorldOptions options_;
};

}  // namespace fusewire::rpc
