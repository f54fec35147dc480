// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// An acceptor in a simulated network, and those who come to it.
// Home: the test's thread turns all of them. Owns: everything. Fails: as assertions of the test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/pipe/acceptor.h"
#include "fusewire/pipe/world_test.h"

namespace fusewire::pipe {

// A dialler of the acceptor on a host of the world: a pipe, or a stranger that sends given bytes.
struct Guest {
  using Dialled = Result<std::unique_ptr<transport::Connection>>;
  Guest(Task* task_in, PipeContext* context, bool is_pipe, uint16_t service = kTestService) : task(task_in) {
    task->AtHome([this, context, is_pipe, service] {
      dialing = task->transport->Dial(
          *task->home, {"server", 5555}, 5 * kSecondNs, [this, context, is_pipe, service](Dialled made) {
            if (!made.ok()) {
              refused = made.status();
            } else if (is_pipe) {
              pipe =
                  std::make_unique<Pipe>(*context, *task->home, std::move(made).value(), Role::kDialer, service, &ear);
              ear.pipe = pipe.get();
              pipe->Start();
            } else {
              raw.Meet(std::move(made).value());
            }
          });
    });
  }
  ~Guest() {
    task->AtHome([this] {
      dialing.reset();
      pipe.reset();
      raw.Drop();
    });
  }
  void Say(const std::string& bytes) {
    task->AtHome([&] { raw.Say(bytes); });
  }
  bool in() const { return ear.opened > 0 && ear.closed == 0; }
  bool gone() const { return !refused.ok() || ear.closed > 0 || raw.closed > 0; }

  Task* const task;
  std::unique_ptr<transport::Dialing> dialing;
  Ear ear;
  std::unique_ptr<Pipe> pipe;
  RawPeer raw;
  Status refused;
};

class AcceptorTest : public testing::Test {
 protected:
  AcceptorTest() : world_(1, transport::LoopbackFaults()), server_(world_, "server", Options()) { Open(Options()); }
  ~AcceptorTest() override {
    guests_.clear();
    acceptor_.reset();
  }

  void Open(Options options) {
    acceptor_.reset();
    ears_.clear();
    pool_ = reactor::Pool::Around(server_.home);
    options.name = "ps:0";
    context_ = std::make_unique<PipeContext>(options);
    auto opened = Acceptor::Open(*context_, *pool_, *server_.transport, {"", 5555}, kTestService,
                                 [this](Pipe& pipe) { return NewEar(&ears_, &pipe); });
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    acceptor_ = std::move(opened).value();
  }

  static std::unique_ptr<Ear> NewEar(std::vector<Ear*>* ears, Pipe* pipe) {
    auto ear = std::make_unique<Ear>();
    ear->pipe = pipe;
    ears->push_back(ear.get());
    ear->on_closed = [ears, gone = ear.get()] { ears->erase(std::find(ears->begin(), ears->end(), gone)); };
    return ear;
  }

  Task* Host(const std::string& name) {
    auto& task = hosts_[name];
    if (task == nullptr) task = std::make_unique<Task>(world_, name, Options());
    return task.get();
  }
  // A task of that name and incarnation; each call is one more pipe of it.
  Guest* Friend(const std::string& name, uint64_t incarnation, uint16_t service = kTestService,
                const std::string& secret = std::string()) {
    auto& context = tasks_[name + "/" + std::to_string(incarnation)];
    if (context == nullptr) {
      Options options;
      options.name = name;
      options.incarnation = incarnation;
      options.secret = secret;
      context = std::make_unique<PipeContext>(options);
    }
    guests_.push_back(std::make_unique<Guest>(Host("client"), context.get(), true, service));
    return guests_.back().get();
  }
  Guest* Stranger(const std::string& host, const std::string& words = std::string()) {
    guests_.push_back(std::make_unique<Guest>(Host(host), nullptr, false));
    if (!words.empty()) guests_.back()->Say(words);
    return guests_.back().get();
  }
  bool Until(UniqueFunction<bool()> done) { return world_.RunUntil(std::move(done), 60 * kSecondNs); }

  transport::LoopbackWorld world_;
  Task server_;
  std::map<std::string, std::unique_ptr<Task>> hosts_;
  std::map<std::string, std::unique_ptr<PipeContext>> tasks_;
  std::unique_ptr<reactor::Pool> pool_;
  std::unique_ptr<PipeContext> context_;
  std::vector<Ear*> ears_;  // of pipes that are open; the acceptor owns them
  std::unique_ptr<Acceptor> acceptor_;
  std::vector<std::unique_ptr<Guest>> guests_;
};

}  // namespace fusewire::pipe
