// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// For tests of collectives: two tasks of one process, each with its home of collectives, over real sockets; and the
// gRPC way from each to the other, over which it gets the other's address.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "fusewire/tf/collective/groups.h"
#include "fusewire/tf/peer/grpc_test.h"

namespace fusewire::tf {

inline std::string MemberTask(int rank) { return "/job:worker/replica:0/task:" + std::to_string(rank); }

// As TensorFlow describes them: one device in each of two tasks.
inline tensorflow::CollGroupParams PairOfMembers() {
  tensorflow::CollGroupParams params;
  params.group_key = 3;
  params.group_size = 2;
  params.num_tasks = 2;
  params.device_type = tensorflow::DeviceType(tensorflow::DEVICE_CPU);
  for (int rank = 0; rank < 2; ++rank) {
    tensorflow::CollGroupMember member;
    member.task = MemberTask(rank);
    member.device.set_name(MemberTask(rank) + "/device:CPU:0");
    member.device.set_incarnation(static_cast<uint64_t>(100 + rank));
    params.members.push_back(member);
  }
  return params;
}

class Member {
 public:
  explicit Member(int rank) : other_(MemberTask(1 - rank)), cache_(std::make_shared<FakeCache>(other_)) {
    CollectiveHome::Options options;
    options.own_task = MemberTask(rank);
    options.host = 77;
    options.find = [this](const std::string& task, std::string* address, SidePtr* side) {
      if (task != other_) return TfStatus(absl::InternalError("No worker known as " + task));
      *address = "127.0.0.1:2222";
      *side = std::make_shared<GrpcSide>(cache_, task);
      return TfStatus();
    };
    task::TaskOptions of_task;
    of_task.wire = task::TransportChoice::kTcp;
    of_task.pool.reactors = 2;
    auto started = task::Task::Start(std::move(of_task));
    EXPECT_TRUE(started.ok()) << started.status().ToString();
    task_ = std::move(started).value();
    auto opened = CollectiveHome::Open(std::move(options), *task_);
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    home = std::move(opened).value();
    Status listening = task_->Listen({"127.0.0.1", 0});
    EXPECT_TRUE(listening.ok()) << listening.ToString();
    groups = home->Renew();
  }

  // This member's answer about itself.
  PortWords Words() const {
    PortWords words;
    words.port = 1;
    words.incarnation = 1;
    words.fuses = true;
    words.group_port = home->port();
    words.group_age = home->age();
    words.host = home->options().host;
    words.joins = joins;
    return words;
  }
  // The gRPC way to the other.
  FakeWorker& grpc() { return cache_->worker(); }
  tensorflow::WorkerCacheInterface* cache() { return cache_.get(); }

 private:
  const std::string other_;
  const std::shared_ptr<FakeCache> cache_;
  std::unique_ptr<task::Task> task_;  // outlives its services

 public:
  std::unique_ptr<CollectiveHome> home;
  CollectiveGroupsPtr groups;
  bool joins = false;  // the test answers for it, and it makes no group
};

// The result of Find.
struct FoundGroup {
  std::atomic<int> count{0};
  TfStatus status;
  GroupPtr group;
  CollectiveGroups::Found Take() {
    return [this](const TfStatus& found, const GroupPtr& of) {
      status = found;
      group = of;
      ++count;
    };
  }
};

}  // namespace fusewire::tf
