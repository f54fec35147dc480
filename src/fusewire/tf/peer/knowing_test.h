// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// For tests: a server on this machine that knows where tasks are, and a task that asks it; scouts look from threads of
// their own.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "fusewire/rpc/rpc.h"
#include "fusewire/tf/peer/whereabouts.h"

#include <gtest/gtest.h>

namespace fusewire::tf {

class KnowingServer {
 public:
  // It has this incarnation, and these methods too.
  static constexpr uint64_t kIncarnation = 1;
  explicit KnowingServer(std::vector<rpc::Method> methods = {})
      : theirs_(StartTask("ps", kIncarnation)), ours_(StartTask("worker", 2)) {
    methods.push_back(ExchangeMethod(known));
    auto opened = rpc::Server::Open(*theirs_, {"127.0.0.1", 0}, std::move(methods));
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    server_ = std::move(opened).value();
  }
  task::Task& ours() { return *ours_; }
  transport::Address address() const { return server_->address(); }
  ChannelPtr MakeChannel() {
    Channel::Options options;
    options.address = address();
    options.target = "/job:ps/replica:0/task:0";
    options.epoch = 1;
    return Channel::Make(*ours_, std::move(options));
  }

  const WhereaboutsPtr known = std::make_shared<Whereabouts>();

 private:
  // It stays, as a server's does: a channel ends on a thread of TensorFlow's, perhaps after the test.
  static task::Task* StartTask(const char* name, uint64_t incarnation) {
    static auto* all = new std::vector<std::unique_ptr<task::Task>>;
    task::TaskOptions options;
    options.pipe.name = name;
    options.pipe.incarnation = incarnation;
    options.pool.reactors = 1;
    auto task = task::Task::Start(std::move(options));
    EXPECT_TRUE(task.ok()) << task.status().ToString();
    all->push_back(std::move(task).value());
    return all->back().get();
  }

  task::Task* const theirs_;
  task::Task* const ours_;
  std::unique_ptr<rpc::Server> server_;
};

}  // namespace fusewire::tf
