// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One process holds so much of what its peers send and no more, over however many servers, nodes and endpoints it has.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fusewire/p2p/p2p.h"
#include "fusewire/pipe/pipe_context.h"
#include "fusewire/rpc/rpc.h"

namespace fusewire {
namespace {

constexpr size_t kBodyBytes = 4 << 20;  // more than a standing window
constexpr uint64_t kLargeTag = 7;
constexpr int64_t kLargeDeadlineNs = 60 * kSecondNs;

std::unique_ptr<task::Task> MakeTask() {
  task::TaskOptions options;
  options.wire = task::TransportChoice::kTcp;
  return std::move(task::Task::Start(std::move(options))).value();
}

// A task with a server that takes whatever comes, and another task's client of it.
struct Served {
  Served() {
    task = MakeTask();
    client_task = MakeTask();
    rpc::Method take;
    take.number = 1;
    take.name = "take";
    take.handle = [](rpc::Request, rpc::Reply reply) { reply.Send(Status::Ok()); };
    std::vector<rpc::Method> methods;
    methods.push_back(std::move(take));
    server = std::move(rpc::Server::Open(*task, {"127.0.0.1", 0}, std::move(methods))).value();
    client = std::make_unique<rpc::Client>(*client_task, server->address());
  }
  Status Send() {
    Buffers body;
    body.push_back(Buffer::TryAllocate(kBodyBytes));
    return client->Ask(1, ConstBytes(), std::move(body), kLargeDeadlineNs).status;
  }

  std::unique_ptr<task::Task> task, client_task;
  std::unique_ptr<rpc::Server> server;
  std::unique_ptr<rpc::Client> client;
};

std::unique_ptr<p2p::Endpoint> MakeEndpoint(const std::string& name) {
  p2p::EndpointOptions options;
  options.pipe.name = name;
  options.wire = task::TransportChoice::kTcp;
  return std::move(p2p::Endpoint::Start(std::move(options), {"127.0.0.1", 0})).value();
}

TEST(ProcessBudget, IsOneForServersAndEndpointsWhichWaitAtItsBoundAndDoNotFail) {
  Served one, other;
  std::unique_ptr<p2p::Endpoint> receiver = MakeEndpoint("receiver"), sender = MakeEndpoint("sender");
  Budget& budget = one.task->context().receive_budget();
  ASSERT_EQ(&budget, &other.task->context().receive_budget());
  ASSERT_EQ(&budget, &receiver->context().receive_budget());

  p2p::Peer* to = sender->Connect("receiver", receiver->address()).value();
  const std::string large(kBodyBytes, 'x');
  std::string landed(kBodyBytes, ' ');
  const std::function<Status()> sends[] = {[&] { return one.Send(); }, [&] { return other.Send(); },
                                           [&] {
                                             p2p::ReceiveOp receive(*receiver, nullptr, kLargeTag,
                                                                    Bytes(landed.data(), landed.size()));
                                             receive.timeout_ns = kLargeDeadlineNs;
                                             receive.Post();
                                             Status sent = sender->Send(*to, kLargeTag, large, kLargeDeadlineNs);
                                             receive.Wait();
                                             return sent.ok() ? receive.status() : sent;
                                           }};
  for (const auto& send : sends) {
    const auto ends = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    const auto is_late = [&] { return std::chrono::steady_clock::now() > ends; };
    // The bytes that the last one left reserved are recalled, and returned.
    Budget::Share holder(&budget);
    bool has_all = false;
    while (!has_all && !is_late()) {
      has_all = holder.TryReserve(budget.limit_bytes());
      if (!has_all) std::this_thread::yield();
    }
    ASSERT_TRUE(has_all);
    std::future<Status> sent = std::async(std::launch::async, send);
    while (!budget.wanted() && !is_late()) std::this_thread::yield();
    EXPECT_TRUE(budget.wanted());
    EXPECT_EQ(sent.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
    holder.Release(budget.limit_bytes());
    EXPECT_TRUE(sent.get().ok());
  }
  EXPECT_EQ(landed, large);
}

}  // namespace
}  // namespace fusewire
