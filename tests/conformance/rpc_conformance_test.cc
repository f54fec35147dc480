// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The contract of rpc with its users, over every transport: from one task's Client to another task's Server, through
// everything.
#include <gmock/gmock.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "environment.h"
#include "fusewire/base/bytes.h"
#include "fusewire/base/random.h"
#include "fusewire/base/sanitizers.h"
#include "fusewire/rpc/rpc.h"
#include "fusewire/rpc/world_test.h"

namespace fusewire {
namespace {

using conformance::Environment;
using rpc::Client;
using rpc::ProbeCall;
using rpc::Reply;
using rpc::Request;
using testing::HasSubstr;

constexpr uint16_t kParts = 5;  // as many streamed parts as the head requests

class RpcContract : public conformance::Suite {
 protected:
  void SetUp() override {
    conformance::Suite::SetUp();
    if (IsSkipped()) return;
    pipe::Options options;
    options.receive_budget_bytes = 256 << 20;
    options.name = "worker:0";
    task_a_ =
        task::Task::Make(options, env().MakePool(Environment::Side::kA), env().MakeTransport(Environment::Side::kA));
    options.name = "ps:0";
    task_b_ =
        task::Task::Make(options, env().MakePool(Environment::Side::kB), env().MakeTransport(Environment::Side::kB));
    Open(env().listen_address());
    client_ = std::make_unique<Client>(*task_a_, env().At(server_->address().port));
  }
  void TearDown() override {
    client_.reset();
    server_.reset();
    DropHeld();
    task_a_.reset();
    task_b_.reset();
  }

  void Open(const transport::Address& address) {
    std::vector<rpc::Method> methods;
    methods.push_back(rpc::EchoMethod());
    methods.push_back(rpc::RefuseMethod());
    methods.push_back(rpc::DropMethod());
    methods.push_back(rpc::MakeMethod(rpc::kHold, "hold", [this](Request, Reply reply) {
      std::lock_guard<std::mutex> lock(mutex_);
      held_.push_back(std::move(reply));
      ++held_count_;
    }));
    methods.push_back(rpc::MakeMethod(kParts, "parts", [](Request request, Reply reply) {
      int parts = std::stoi(request.head.ToString());
      for (int i = 0; i < parts; ++i) {
        auto seed = static_cast<uint64_t>(i);
        reply.SendPart(std::to_string(i), rpc::PatternSegments({1000 + seed}, seed));
      }
      reply.Send(Status::Ok(), std::string("all"));
    }));
    auto opened = rpc::Server::Open(*task_b_, address, std::move(methods));
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    server_ = std::move(opened).value();
  }
  // Starts the call and waits for its end.
  testing::AssertionResult Ask(ProbeCall* call) {
    int before = call->dones;
    client_->Start(call);
    if (Ends(call, before + 1)) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "the call has not ended";
  }
  bool Ends(ProbeCall* call, int dones = 1) {
    return env().RunUntil([call, dones] { return call->dones >= dones; });
  }
  // The answers that the server owes.
  bool WaitForHeld(int count) {
    return env().RunUntil([this, count] { return held_count_ >= count; });
  }
  Reply TakeHeld() {
    std::lock_guard<std::mutex> lock(mutex_);
    Reply reply = std::move(held_.front());
    held_.pop_front();
    return reply;
  }
  void DropHeld() {
    std::lock_guard<std::mutex> lock(mutex_);
    held_.clear();
  }
  // How much, or how many: less where each byte costs more.
  size_t Size(size_t real, size_t simulated) {
    if (env().simulated()) return simulated;
    return kSanitized ? std::max(simulated, real / 8) : real;
  }

  std::unique_ptr<task::Task> task_a_, task_b_;
  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<Client> client_;
  std::mutex mutex_;
  std::deque<Reply> held_;
  std::atomic<int> held_count_{0};
};

TEST_P(RpcContract, AnAnswerComesBack) {
  for (size_t size : {0, 1, 100, 5000}) {
    ProbeCall call(rpc::kEcho, std::string(size, 'h'));
    ASSERT_TRUE(Ask(&call));
    ASSERT_TRUE(call.status.ok()) << call.status.ToString();
    EXPECT_EQ(call.reply_head, call.request_head);
    EXPECT_TRUE(call.reply_body.empty());
  }
}

TEST_P(RpcContract, SegmentsComeBackAsTheyWere) {
  const uint64_t before = ReadCopyCounts().large_copies;
  Random random(21);
  std::vector<size_t> parameters;
  for (size_t i = 0; i < 200; ++i) parameters.push_back(random.Between(1, Size(100 * 1000, 4000)));
  const std::vector<std::vector<size_t>> bodies = {
      {1}, {0}, {64 * 1024}, {0, 5, 0, 0, 70 * 1000, 0}, {Size(64 << 20, 1 << 20)}, parameters};
  for (const std::vector<size_t>& sizes : bodies) {
    ProbeCall call(rpc::kEcho, "head");
    call.body = rpc::PatternSegments(sizes, 3);
    ASSERT_TRUE(Ask(&call));
    ASSERT_TRUE(call.status.ok()) << call.status.ToString();
    EXPECT_TRUE(rpc::AreSegments(call.reply_body, sizes, 3));
  }
  EXPECT_TRUE(GetParam().copies || ReadCopyCounts().large_copies == before);
}

TEST_P(RpcContract, ManyCallsAtOnceEndOnceEach) {
  Random random(22);
  std::vector<std::unique_ptr<ProbeCall>> calls;
  std::vector<std::vector<size_t>> sizes;
  for (size_t i = 0; i < Size(2000, 300); ++i) {
    calls.push_back(std::make_unique<ProbeCall>(rpc::kEcho, std::to_string(i)));
    sizes.emplace_back();
    if (random.Chance(0.3)) sizes.back() = {random.Between(1, 20 * 1000)};
    calls.back()->body = rpc::PatternSegments(sizes.back(), i);
  }
  for (auto& call : calls) client_->Start(call.get());
  for (size_t i = 0; i < calls.size(); ++i) {
    ASSERT_TRUE(Ends(calls[i].get())) << i;
    ASSERT_TRUE(calls[i]->status.ok()) << calls[i]->status.ToString();
    EXPECT_EQ(calls[i]->reply_head, std::to_string(i));
    EXPECT_TRUE(rpc::AreSegments(calls[i]->reply_body, sizes[i], i));
  }
  for (auto& call : calls) EXPECT_EQ(call->dones, 1);
}

TEST_P(RpcContract, AStreamComesInOrder) {
  ProbeCall call(kParts, "50");
  ASSERT_TRUE(Ask(&call));
  ASSERT_TRUE(call.status.ok()) << call.status.ToString();
  EXPECT_EQ(call.reply_head, "all");
  ASSERT_EQ(call.parts.size(), 50u);
  for (size_t i = 0; i < call.parts.size(); ++i) {
    EXPECT_EQ(call.parts[i].head, std::to_string(i));
    EXPECT_TRUE(rpc::AreSegments(call.parts[i].body, {1000 + i}, i));
  }
}

TEST_P(RpcContract, ErrorsKeepTheirFields) {
  ProbeCall refused(rpc::kRefuse);
  ASSERT_TRUE(Ask(&refused));
  EXPECT_EQ(refused.status.code(), Code::kApplication);
  EXPECT_EQ(refused.status.app_code(), 77u);
  EXPECT_EQ(refused.status.cause(), "the table is not here");
  EXPECT_EQ(refused.status.next(), "load the table first");
  ProbeCall strange(rpc::kStrange), dropped(rpc::kDrop);
  for (ProbeCall* call : {&strange, &dropped}) {
    ASSERT_TRUE(Ask(call));
    EXPECT_FALSE(call->status.ok());
    EXPECT_THAT(call->status.peer(), HasSubstr("ps:0"));
    EXPECT_NE(call->status.cause(), "");
  }
}

TEST_P(RpcContract, ADeadlineEndsTheCallAndTheLateAnswerIsDropped) {
  ProbeCall first(rpc::kEcho, "to connect may take longer than the deadline");
  ASSERT_TRUE(Ask(&first));
  ProbeCall call(rpc::kHold);
  call.timeout_ns = 100 * kMillisecondNs;
  ASSERT_TRUE(Ask(&call));
  EXPECT_EQ(call.status.code(), Code::kTimeout);
  ASSERT_TRUE(WaitForHeld(1));
  Reply late = TakeHeld();
  EXPECT_TRUE(env().RunUntil([&late] { return late.unwanted(); }));  // the deadline travelled with the call
  late.Send(Status::Ok(), std::string("too late"), rpc::PatternSegments({100 * 1000}, 1));
  ProbeCall next(rpc::kEcho, "next");
  ASSERT_TRUE(Ask(&next));
  EXPECT_TRUE(next.status.ok()) << next.status.ToString();
  EXPECT_EQ(call.dones, 1);
}

TEST_P(RpcContract, ACancelReachesThePeer) {
  ProbeCall call(rpc::kHold);
  client_->Start(&call);
  ASSERT_TRUE(WaitForHeld(1));
  Reply reply = TakeHeld();
  EXPECT_FALSE(reply.unwanted());
  call.Cancel();
  ASSERT_TRUE(Ends(&call));
  EXPECT_EQ(call.status.code(), Code::kCancelled);
  EXPECT_TRUE(env().RunUntil([&reply] { return reply.unwanted(); }));
  reply.Send(Status::Ok());
  ProbeCall next(rpc::kEcho, "next");
  ASSERT_TRUE(Ask(&next));
  EXPECT_EQ(call.dones, 1);
}

TEST_P(RpcContract, CallsEndWhenTheServerGoesAndWorkWhenItIsBack) {
  std::deque<ProbeCall> calls;
  for (int i = 0; i < 20; ++i) client_->Start(&calls.emplace_back(rpc::kHold));
  ASSERT_TRUE(WaitForHeld(20));
  transport::Address same = env().listen_address();
  same.port = server_->address().port;
  server_.reset();
  for (ProbeCall& call : calls) {
    ASSERT_TRUE(Ends(&call));
    EXPECT_EQ(call.status.code(), Code::kUnavailable) << call.status.ToString();
    EXPECT_NE(call.status.peer(), "");
    EXPECT_NE(call.status.next(), "");
  }
  // A call that cannot be sent yet waits for the server.
  ProbeCall early(rpc::kEcho, "early");
  client_->Start(&early);
  Open(same);
  ASSERT_TRUE(Ends(&early));
  EXPECT_TRUE(early.status.ok()) << early.status.ToString();
  for (ProbeCall& call : calls) EXPECT_EQ(call.dones, 1);
  DropHeld();  // answers to nobody
}

TEST_P(RpcContract, CallsEndWhenTheClientGoes) {
  std::deque<ProbeCall> calls;
  for (int i = 0; i < 20; ++i) client_->Start(&calls.emplace_back(rpc::kHold));
  ASSERT_TRUE(WaitForHeld(20));
  client_.reset();
  for (ProbeCall& call : calls) {
    EXPECT_EQ(call.dones, 1);
    EXPECT_EQ(call.status.code(), Code::kCancelled);
  }
  EXPECT_TRUE(env().RunUntil([this] {
    std::lock_guard<std::mutex> lock(mutex_);
    return std::all_of(held_.begin(), held_.end(), [](const Reply& reply) { return reply.unwanted(); });
  }));
}

TEST_P(RpcContract, AnAbsentServerIsReportedInTime) {
  rpc::ClientOptions options;
  options.patience_ns = 100 * kMillisecondNs;
  for (const transport::Address& address : {env().Refusing(), env().Silent()}) {
    Client lonely(*task_a_, address, options);
    ProbeCall call(rpc::kEcho);
    call.timeout_ns = 20 * kSecondNs;
    lonely.Start(&call);
    ASSERT_TRUE(Ends(&call));
    EXPECT_EQ(call.status.code(), Code::kUnavailable) << call.status.ToString();
    EXPECT_THAT(call.status.peer(), HasSubstr(address.ToString()));
    EXPECT_NE(call.status.next(), "");
  }
}

FUSEWIRE_EVERYWHERE(RpcContract);

}  // namespace
}  // namespace fusewire
