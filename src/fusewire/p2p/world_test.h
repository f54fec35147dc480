// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// For the tests of endpoints: endpoints in a loopback world, where time is virtual and faults are made to order; and
// bytes that can be recognised.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/random.h"
#include "fusewire/p2p/p2p.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/transport/transport.h"
#include "loopback/loopback.h"

namespace fusewire::p2p {

inline std::string Pattern(size_t size, uint64_t seed) {
  std::string text(size, '\0');
  Random random(seed);
  for (size_t i = 0; i < size; i += 8) {
    uint64_t word = random.Next();
    for (size_t j = i; j < size && j < i + 8; ++j) text[j] = static_cast<char>(word >> (j - i) * 8);
  }
  return text;
}

inline Bytes BytesOf(std::string& text) { return Bytes(text.data(), text.size()); }

// Cuts every write and read into random pieces, as a busy network would.
inline transport::LoopbackFaults Splitting() {
  transport::LoopbackFaults faults;
  faults.split = true;
  faults.late_answer_chance = 0.2;
  return faults;
}

class P2pWorld {
 public:
  struct Event {
    std::string peer;
    PeerEvent event;
    Code code;
    uint64_t incarnation;
  };
  // One endpoint, and the events that it got of its peers.
  struct Task {
    reactor::Reactor* home = nullptr;
    std::vector<Event> events;
    std::unique_ptr<Endpoint> endpoint;
    int Count(PeerEvent event) const {
      int count = 0;
      for (const Event& one : events) count += one.event == event ? 1 : 0;
      return count;
    }
  };

  explicit P2pWorld(uint64_t seed = 1, const transport::LoopbackFaults& faults = {}) : world(seed, faults) {}
  ~P2pWorld() {
    for (auto& [name, task] : tasks) Take(name);
  }

  Endpoint& Add(const std::string& name, const Limits& limits = Limits(), const pipe::Options& pipe = pipe::Options()) {
    Task& task = tasks[name];
    task.home = task.home == nullptr ? world.AddHost(name) : task.home;
    EndpointOptions options;
    options.pipe = pipe;
    options.pipe.name = name;
    options.limits = limits;
    options.on_peer = [&task](Peer& peer, PeerEvent event, const Status& why) {
      task.events.push_back({peer.name(), event, why.code(), peer.incarnation()});
    };
    auto made =
        Endpoint::Make(std::move(options), {"", 5555}, reactor::Pool::Around(task.home), world.MakeTransport(name));
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    task.endpoint = std::move(made).value();
    return *task.endpoint;
  }
  Endpoint& at(const std::string& name) { return *tasks[name].endpoint; }
  Peer& Connect(const std::string& from, const std::string& to) {
    auto peer = at(from).Connect(to, {to, 5555});
    EXPECT_TRUE(peer.ok()) << peer.status().ToString();
    return *peer.value();
  }
  Peer& Expect(const std::string& from, const std::string& to) { return *at(from).Expect(to).value(); }

  // Closes the endpoint as a process that ends would, while the world goes on.
  void Take(const std::string& name) {
    Task& task = tasks[name];
    if (task.endpoint == nullptr) return;
    task.endpoint->Close();
    world.RunFor(3 * kSecondNs);
    task.endpoint.reset();
  }
  void Kill(const std::string& name, transport::LoopbackDeath death = transport::LoopbackDeath::kReset) {
    world.KillHost(name, death);
    tasks[name].endpoint->Close();
    tasks[name].endpoint.reset();
  }
  Endpoint& Restart(const std::string& name, const Limits& limits = Limits()) {
    tasks[name].home = world.RestartHost(name);
    return Add(name, limits);
  }

  bool RunUntil(UniqueFunction<bool()> done, int64_t limit_ns = 100 * kSecondNs) {
    return world.RunUntil(std::move(done), limit_ns);
  }
  bool Finish(std::initializer_list<Op*> ops) {
    return RunUntil([&ops] {
      for (Op* op : ops) {
        if (!op->Test()) return false;
      }
      return true;
    });
  }
  ::testing::AssertionResult Ends(Op& op) {
    if (!Finish({&op})) return ::testing::AssertionFailure() << "has not ended";
    if (!op.status().ok()) return ::testing::AssertionFailure() << op.status().ToString();
    return ::testing::AssertionSuccess();
  }

  transport::LoopbackWorld world;
  std::map<std::string, Task> tasks;
};

}  // namespace fusewire::p2p
