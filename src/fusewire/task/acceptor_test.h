// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// An acceptor in a simulated network, and those who come to it.
// Home: the test's thread turns all of them. Owns: everything. Fails: as assertions of the test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/clock.h"
#include "fusewire/base/random.h"
#include "fusewire/pipe/options.h"
#include "fusewire/pipe/world_test.h"
#include "fusewire/task/acceptor.h"

namespace fusewire::task {

// A dialler of the acceptor on a host of the world: a pipe, or a stranger that sends given bytes.
struct Dialler {
  using Dialled = Result<std::unique_ptr<transport::Connection>>;
  Dialler(pipe::Task* task_in, pipe::PipeContext* context, bool is_pipe, uint16_t service = pipe::kTestService)
      : task(task_in) {
    task->AtHome([this, context, is_pipe, service] {
      dialing = task->transport->Dial(
          *task->home, {"server", 5555}, 5 * kSecondNs, [this, context, is_pipe, service](Dialled made) {
            if (!made.ok()) {
              refused = made.status();
            } else if (is_pipe) {
              pipe = std::make_unique<pipe::Pipe>(*context, *task->home, std::move(made).value(), pipe::Role::kDialer,
                                                  service, &receiver);
              receiver.pipe = pipe.get();
              pipe->Start();
            } else {
              raw.Meet(std::move(made).value());
            }
          });
    });
  }
  ~Dialler() {
    task->AtHome([this] {
      dialing.reset();
      pipe.reset();
      raw.Drop();
    });
  }
  void Say(const std::string& bytes) {
    task->AtHome([&] { raw.Say(bytes); });
  }
  bool in() const { return receiver.opened > 0 && receiver.closed == 0; }
  bool gone() const { return !refused.ok() || receiver.closed > 0 || raw.closed > 0; }

  pipe::Task* const task;
  std::unique_ptr<transport::Dialing> dialing;
  pipe::RecordingReceiver receiver;
  std::unique_ptr<pipe::Pipe> pipe;
  pipe::RawPeer raw;
  Status refused;
};

class AcceptorTest : public testing::Test {
 protected:
  AcceptorTest() : world_(1, transport::LoopbackFaults()), server_(world_, "server", pipe::Options()) {
    Open(pipe::Options());
  }
  ~AcceptorTest() override {
    diallers_.clear();
    acceptor_.reset();
  }

  void Open(pipe::Options options) {
    acceptor_.reset();
    receivers_.clear();
    pool_ = reactor::Pool::Around(server_.home);
    options.name = "ps:0";
    context_ = std::make_unique<pipe::PipeContext>(options);
    acceptor_ = std::make_unique<Acceptor>(*context_, *pool_, *server_.transport);
    Status served = acceptor_->Serve(pipe::kTestService, *context_, {server_.home},
                                     [this](pipe::Pipe& pipe) { return NewReceiver(&receivers_, &pipe); });
    ASSERT_TRUE(served.ok()) << served.ToString();
    Status listens = acceptor_->Listen({"", 5555});
    ASSERT_TRUE(listens.ok()) << listens.ToString();
  }

  static std::unique_ptr<pipe::RecordingReceiver> NewReceiver(std::vector<pipe::RecordingReceiver*>* receivers,
                                                              pipe::Pipe* pipe) {
    auto receiver = std::make_unique<pipe::RecordingReceiver>();
    receiver->pipe = pipe;
    receivers->push_back(receiver.get());
    receiver->on_closed = [receivers, gone = receiver.get()] {
      receivers->erase(std::find(receivers->begin(), receivers->end(), gone));
    };
    return receiver;
  }

  pipe::Task* Host(const std::string& name) {
    auto& task = hosts_[name];
    if (task == nullptr) task = std::make_unique<pipe::Task>(world_, name, pipe::Options());
    return task.get();
  }
  // A task of that name and incarnation; each call is one more pipe of it.
  Dialler* DialAs(const std::string& name, uint64_t incarnation, uint16_t service = pipe::kTestService,
                  const std::string& secret = std::string()) {
    auto& context = tasks_[name + "/" + std::to_string(incarnation)];
    if (context == nullptr) {
      pipe::Options options;
      options.name = name;
      options.incarnation = incarnation;
      options.secret = secret;
      context = std::make_unique<pipe::PipeContext>(options);
    }
    diallers_.push_back(std::make_unique<Dialler>(Host("client"), context.get(), true, service));
    return diallers_.back().get();
  }
  Dialler* DialRaw(const std::string& host, const std::string& words = std::string()) {
    diallers_.push_back(std::make_unique<Dialler>(Host(host), nullptr, false));
    if (!words.empty()) diallers_.back()->Say(words);
    return diallers_.back().get();
  }
  // Calls `come` 200 times, whose diallers leave at random, under faults. No place is lost: at the end, as many peers
  // are accepted as at the beginning, each with service_of(its number).
  void ExpectNoLostPlaces(Random* random, double corrupt_chance, const std::function<void(uint32_t)>& come,
                          const std::function<uint16_t(uint64_t)>& service_of) {
    transport::LoopbackFaults faults = pipe::Nasty();
    faults.cut_chance = 0.02;
    if (corrupt_chance > 0) faults.corrupt_chance = corrupt_chance;
    world_.SetFaults(faults);
    for (uint32_t i = 0; i < 200; ++i) {
      come(i);
      if (!diallers_.empty() && random->Chance(0.6))
        diallers_.erase(diallers_.begin() + static_cast<std::ptrdiff_t>(random->Below(diallers_.size())));
      world_.RunFor(static_cast<int64_t>(random->Below(5 * kMillisecondNs)));
    }
    diallers_.clear();
    world_.SetFaults(transport::LoopbackFaults());
    world_.RunFor(60 * kSecondNs);
    const AcceptorStats stats = acceptor_->Snapshot();
    EXPECT_EQ(stats.open, 0u);
    EXPECT_EQ(stats.accepted, stats.greeted + stats.turned_away);
    for (uint64_t i = 0; i < kPlaces; ++i) {
      DialAs("extra:" + std::to_string(i), 1, service_of(i));
      ASSERT_TRUE(Until([&] { return acceptor_->Snapshot().open == i + 1; }));
    }
    diallers_.clear();
    world_.RunFor(10 * kSecondNs);
  }
  static constexpr int kPlaces = 12;
  static pipe::Options FewPlaces() {
    pipe::Options options;
    options.connections_max = kPlaces;
    options.greetings_max = kPlaces / 2;
    return options;
  }
  bool Until(UniqueFunction<bool()> done) { return world_.RunUntil(std::move(done), 60 * kSecondNs); }

  transport::LoopbackWorld world_;
  pipe::Task server_;
  std::map<std::string, std::unique_ptr<pipe::Task>> hosts_;
  std::map<std::string, std::unique_ptr<pipe::PipeContext>> tasks_;
  std::unique_ptr<reactor::Pool> pool_;
  std::unique_ptr<pipe::PipeContext> context_;
  std::vector<pipe::RecordingReceiver*> receivers_;  // of pipes that are open; the acceptor owns them
  std::unique_ptr<Acceptor> acceptor_;
  std::vector<std::unique_ptr<Dialler>> diallers_;
};

}  // namespace fusewire::task
