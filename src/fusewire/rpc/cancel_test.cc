// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A cancel at every moment of a call's life, and a deadline, which ends a call in the same way.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/pipe/pipe_context.h"
#include "fusewire/rpc/world_test.h"

namespace fusewire::rpc {
namespace {

// Slow enough to stop in the middle of a body: 1 MB takes 10 ms.
transport::LoopbackFaults Slow() {
  transport::LoopbackFaults faults;
  faults.bytes_per_second = 100 * 1000 * 1000;
  return faults;
}

WorldOptions SlowWorld() {
  WorldOptions options;
  options.faults = Slow();
  return options;
}

void ExpectCancelled(const ProbeCall& call) {
  EXPECT_EQ(call.dones, 1);
  EXPECT_EQ(call.status.code(), Code::kCancelled) << call.status.ToString();
  EXPECT_FALSE(call.status.peer().empty());
}

void ExpectPipeLives(RpcWorld* world) {
  ProbeCall call(kEcho, "alive");
  call.body = PatternSegments({100000}, 9);
  ASSERT_TRUE(world->Ask(&call));
  ASSERT_TRUE(call.status.ok()) << call.status.ToString();
  EXPECT_TRUE(AreSegments(call.reply_body, {100000}, 9));
  EXPECT_EQ(world->client->Snapshot().connects, 1u);
}

// The thread that cancels can't know whether another thread has started the call yet.
TEST(Cancel, BeforeStartEndsTheNextStart) {
  RpcWorld world;
  ProbeCall call(kEcho);
  call.Cancel();
  ASSERT_TRUE(world.Ask(&call));
  ExpectCancelled(call);
  ProbeCall again(kEcho);
  ASSERT_TRUE(world.Ask(&again));
  EXPECT_TRUE(again.status.ok());
}

TEST(Cancel, AfterTheEndDoesNothing) {
  RpcWorld world;
  ProbeCall call(kEcho), next(kHold);
  ASSERT_TRUE(world.Ask(&call));
  world.client->Start(&next);  // takes the same slot
  call.Cancel();
  world.world.RunFor(kSecondNs);
  EXPECT_EQ(call.dones, 1);
  EXPECT_EQ(next.dones, 0);
  next.Cancel();
  ASSERT_TRUE(world.Finish(next));
}

TEST(Cancel, WhileItWaitsForAConnection) {
  WorldOptions options;
  options.with_server = false;
  RpcWorld world(std::move(options));
  ProbeCall call(kEcho), other(kEcho);
  world.client->Start(&call);
  world.client->Start(&other);
  world.world.RunFor(kSecondNs);
  int64_t start_ns = world.now_ns();
  call.Cancel();
  ASSERT_TRUE(world.Finish(call));
  EXPECT_EQ(world.now_ns(), start_ns);
  ExpectCancelled(call);
  EXPECT_EQ(other.dones, 0);
  world.OpenServer();
  ASSERT_TRUE(world.Finish(other));
  EXPECT_TRUE(other.status.ok());
}

TEST(Cancel, ACallThatWaitsForCreditIsTakenBack) {
  WorldOptions options;
  options.server_pipe.window_bytes = 10000;
  options.server_pipe.receive_budget_bytes = 1;
  RpcWorld world(std::move(options));
  ProbeCall holds_credit(kHold), queued(kHold);
  holds_credit.body = PatternSegments({6000}, 1);
  queued.body = PatternSegments({6000}, 1);
  world.client->Start(&holds_credit);
  ASSERT_TRUE(world.RunUntil([&] { return world.held.size() == 1; }));
  // A single peer may exceed the budget, so another one has to use it up.
  std::optional<Budget::Share> other(&world.server_task->context().receive_budget());
  ASSERT_TRUE(other->TryReserve(1));
  world.client->Start(&queued);
  world.world.RunFor(kSecondNs);
  queued.Cancel();
  ASSERT_TRUE(world.Finish(queued));
  ExpectCancelled(queued);
  other.reset();
  holds_credit.Cancel();
  ASSERT_TRUE(world.RunUntil([&] { return world.held[0].unwanted; }));
  AtHome(world.server_home, [&] { world.held.clear(); });
  ExpectPipeLives(&world);
  EXPECT_TRUE(world.held.empty()) << "the call that was taken back has been sent";
  EXPECT_TRUE(world.IsClean());
}

TEST(Cancel, ReachesTheHandler) {
  RpcWorld world;
  ProbeCall call(kHold);
  world.client->Start(&call);
  ASSERT_TRUE(world.RunUntil([&] { return world.held.size() == 1; }));
  EXPECT_FALSE(world.held[0].reply.unwanted());
  call.Cancel();
  call.Cancel();
  ASSERT_TRUE(world.RunUntil([&] { return world.held[0].unwanted; }));
  EXPECT_TRUE(world.held[0].reply.unwanted());
  ExpectCancelled(call);
  AtHome(world.server_home, [&] { world.held[0].reply.Send(Status::Ok(), std::string("late")); });
  ExpectPipeLives(&world);
  EXPECT_EQ(world.client->Snapshot().late_replies, 0u) << "an answer that nobody wants was sent";
  EXPECT_TRUE(world.IsClean());
}

TEST(Cancel, IsToldApartFromTheEndOfTheConnection) {
  std::vector<Unwanted> reasons;
  std::vector<Reply> held;
  WorldOptions options;
  options.more_methods = [&] {
    std::vector<Method> methods;
    methods.push_back(MakeMethod(10, "again", [&](Request, Reply reply) {
      reply.OnUnwanted([&reasons](Unwanted why) { reasons.push_back(why); });
      held.push_back(std::move(reply));
    }));
    return methods;
  };
  RpcWorld world(std::move(options));
  ProbeCall lost(10), given_up(10);
  world.client->Start(&lost);
  ASSERT_TRUE(world.RunUntil([&] { return held.size() == 1; }));
  world.world.Cut("client", "server");
  ASSERT_TRUE(world.RunUntil([&] { return lost.dones == 1 && held[0].unwanted(); }));
  EXPECT_EQ(reasons, std::vector<Unwanted>{Unwanted::kLost});
  world.client->Start(&given_up);
  ASSERT_TRUE(world.RunUntil([&] { return held.size() == 2; }));
  given_up.Cancel();
  ASSERT_TRUE(world.RunUntil([&] { return reasons.size() == 2; }));
  EXPECT_EQ(reasons[1], Unwanted::kGivenUp);
  AtHome(world.server_home, [&held] { held.clear(); });
}

TEST(Cancel, ThatMeetsTheAnswerOnTheWay) {
  RpcWorld world;
  ProbeCall call(kHold);
  world.client->Start(&call);
  ASSERT_TRUE(world.RunUntil([&] { return world.held.size() == 1; }));
  AtHome(world.server_home, [&] { world.held[0].reply.Send(Status::Ok(), std::string("too late")); });
  call.Cancel();
  ASSERT_TRUE(world.Finish(call));
  ExpectCancelled(call);
  ExpectPipeLives(&world);
  EXPECT_EQ(world.client->Snapshot().late_replies, 1u);
  EXPECT_TRUE(world.IsClean());
}

TEST(Cancel, InTheMiddleOfTheRequestLeavesTheConnectionAlone) {
  RpcWorld world(SlowWorld());
  ExpectPipeLives(&world);
  for (int round = 0; round < 3; ++round) {
    ProbeCall call(kEcho);
    call.body = PatternSegments({3000000}, 1);
    world.client->Start(&call);
    world.world.RunFor(10 * kMillisecondNs);
    ASSERT_EQ(call.dones, 0);
    ASSERT_EQ(world.server->calls_in_flight(), 1u);
    call.Cancel();
    ASSERT_TRUE(world.Finish(call));
    ExpectCancelled(call);
    ProbeCall next(kEcho, "next");  // takes the same slot, and overtakes what is left of the body
    ASSERT_TRUE(world.Ask(&next));
    EXPECT_EQ(next.reply_head, "next") << next.status.ToString();
    EXPECT_EQ(world.server->calls_in_flight(), 1u);
    ExpectPipeLives(&world);
  }
  EXPECT_TRUE(world.IsClean());
}

// Where the answer lands, and whether anybody touched it after the end of the call.
struct WatchedMemory {
  explicit WatchedMemory(size_t size) : bytes(size, 0) {}
  void Watch() { std::fill(bytes.begin(), bytes.end(), uint8_t{0xab}); }
  bool untouched() const {
    return std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0xab; });
  }
  std::vector<uint8_t> bytes;
  Bytes part;
};

void LandIn(ProbeCall* call, WatchedMemory* memory) {
  call->land = [memory](ConstBytes, const SegmentSizes& sizes) -> Result<pipe::Landing> {
    EXPECT_EQ(sizes.total(), memory->bytes.size());
    memory->part = Bytes(memory->bytes.data(), memory->bytes.size());
    return pipe::Landing::Into(&memory->part, 1);
  };
  call->then = [memory] { memory->Watch(); };
}

TEST(Cancel, InTheMiddleOfTheAnswerFreesItsMemoryAtOnce) {
  for (bool split : {false, true}) {
    WorldOptions options = SlowWorld();
    options.faults.split = split;
    RpcWorld world(std::move(options));
    WatchedMemory memory(3000000);
    ProbeCall call(kHold);
    LandIn(&call, &memory);
    world.client->Start(&call);
    ASSERT_TRUE(world.RunUntil([&] { return world.held.size() == 1; }));
    AtHome(world.server_home,
           [&] { world.held[0].reply.Send(Status::Ok(), ConstBytes(), PatternSegments({3000000}, 1)); });
    ASSERT_TRUE(world.RunUntil([&] { return memory.bytes[1000000] != 0; })) << "it has begun to land";
    call.Cancel();
    ASSERT_TRUE(world.Finish(call));
    ExpectCancelled(call);
    EXPECT_TRUE(call.reply_body.empty());
    ExpectPipeLives(&world);
    EXPECT_TRUE(world.IsClean());
    EXPECT_TRUE(memory.untouched());
  }
}

TEST(Deadline, InTheMiddleOfTheAnswerFreesItsMemoryAtOnce) {
  RpcWorld world(SlowWorld());
  ExpectPipeLives(&world);
  WatchedMemory memory(3000000);
  ProbeCall call(kEcho);
  call.body = PatternSegments({3000000}, 1);
  call.timeout_ns = 45 * kMillisecondNs;  // 30 ms for the way there
  LandIn(&call, &memory);
  world.client->Start(&call);
  ASSERT_TRUE(world.RunUntil([&] { return memory.bytes[1000] != 0; }));
  ASSERT_EQ(call.dones, 0);
  ASSERT_TRUE(world.Finish(call));
  EXPECT_EQ(call.status.code(), Code::kTimeout);
  ExpectPipeLives(&world);
  EXPECT_TRUE(world.IsClean());
  EXPECT_TRUE(memory.untouched());
}

TEST(Cancel, NothingOfAnAnswerThatWasCutOffIsLeft) {
  RpcWorld world(SlowWorld());
  ProbeCall call(kHold);
  world.client->Start(&call);
  ASSERT_TRUE(world.RunUntil([&] { return world.held.size() == 1; }));
  AtHome(world.server_home,
         [&] { world.held[0].reply.Send(Status::Ok(), std::string("head"), PatternSegments({3000000}, 1)); });
  world.world.RunFor(10 * kMillisecondNs);
  call.Cancel();
  ASSERT_TRUE(world.Finish(call));
  ExpectCancelled(call);
  EXPECT_TRUE(call.reply_head.empty());
  EXPECT_TRUE(call.reply_body.empty()) << "half a body is no body";
}

// ---- deadlines ----

TEST(Deadline, FiresAtTheCallerInTime) {
  RpcWorld world;
  for (int64_t timeout_ns : {kMillisecondNs, 50 * kMillisecondNs, 3 * kSecondNs}) {
    ProbeCall call(kHold);
    call.timeout_ns = timeout_ns;
    int64_t start_ns = world.now_ns();
    ASSERT_TRUE(world.Ask(&call));
    EXPECT_GE(world.now_ns() - start_ns, timeout_ns);
    EXPECT_LE(world.now_ns() - start_ns, timeout_ns + kMillisecondNs);
    EXPECT_EQ(call.status.code(), Code::kTimeout);
    EXPECT_EQ(call.status.cause(), "no answer in time");
    EXPECT_EQ(call.status.peer(), "ps:0 (server:5555)");
    EXPECT_EQ(call.status.phase(), "calling method 2");
    EXPECT_EQ(call.status.age_ms(), timeout_ns / kMillisecondNs);
    EXPECT_FALSE(call.status.next().empty());
  }
  MethodSnapshot hold = world.client->Snapshot().methods.at(0);
  EXPECT_EQ(hold.timeouts, 3u);
  EXPECT_EQ(hold.errors, 3u);
}

TEST(Deadline, TravelsWithTheCall) {
  RpcWorld world;
  ProbeCall forever(kHold), call(kHold);
  world.client->Start(&forever);
  ASSERT_TRUE(world.RunUntil([&] { return world.held.size() == 1; }));
  EXPECT_EQ(world.held[0].request.deadline_ns, kForeverNs);
  call.timeout_ns = 500 * kMillisecondNs;
  int64_t start_ns = world.now_ns();
  world.client->Start(&call);
  ASSERT_TRUE(world.RunUntil([&] { return world.held.size() == 2; }));
  // Rounded up to a millisecond, and never before the caller's own.
  EXPECT_GE(world.held[1].request.deadline_ns, start_ns + call.timeout_ns);
  EXPECT_LE(world.held[1].request.deadline_ns, start_ns + call.timeout_ns + 2 * kMillisecondNs);
  ASSERT_TRUE(world.RunUntil([&] { return world.held[1].unwanted; }));
  EXPECT_LE(world.now_ns(), start_ns + call.timeout_ns + 2 * kMillisecondNs);
  EXPECT_EQ(call.dones, 1);
  EXPECT_FALSE(world.held[0].unwanted);
  forever.Cancel();
  ASSERT_TRUE(world.Finish(forever));
}

// The server applies the deadline by its own clock, even if no cancel can reach it.
TEST(Deadline, IsKeptByAServerThatIsCutOff) {
  WorldOptions options;
  options.client.patience_ns = kSecondNs;
  RpcWorld world(std::move(options));
  ProbeCall call(kHold);
  call.timeout_ns = 500 * kMillisecondNs;
  world.client->Start(&call);
  ASSERT_TRUE(world.RunUntil([&] { return world.held.size() == 1; }));
  transport::LoopbackFaults clogged;
  clogged.clogged = true;
  world.world.SetFaults(clogged);
  ASSERT_TRUE(world.RunUntil([&] { return world.held[0].unwanted; }, kSecondNs));
  EXPECT_EQ(call.dones, 1);
}

TEST(Deadline, InThePastEndsTheCallAtOnce) {
  RpcWorld world;
  for (int64_t timeout_ns : {int64_t{0}, int64_t{-1}, INT64_MIN}) {
    ProbeCall call(kHold);
    call.timeout_ns = timeout_ns;
    int64_t start_ns = world.now_ns();
    ASSERT_TRUE(world.Ask(&call));
    EXPECT_EQ(world.now_ns(), start_ns);
    EXPECT_EQ(call.status.code(), Code::kTimeout);
  }
  EXPECT_TRUE(world.held.empty());
}

TEST(Deadline, NamesTheTroubleOfAPeerThatIsNotThere) {
  WorldOptions options;
  options.with_server = false;
  RpcWorld world(std::move(options));
  ProbeCall call(kEcho);
  call.timeout_ns = kSecondNs;
  ASSERT_TRUE(world.Ask(&call));
  EXPECT_EQ(call.status.code(), Code::kTimeout);
  EXPECT_EQ(call.status.cause(), "no connection in time, last error: connect: Connection refused");
}

TEST(Deadline, ALateCancelOfAnOldCallDoesNotTouchItsSuccessor) {
  RpcWorld world;
  ProbeCall first(kHold);
  first.timeout_ns = 10 * kMillisecondNs;
  ASSERT_TRUE(world.Ask(&first));
  ProbeCall second(kHold);
  world.client->Start(&second);  // the same slot
  ASSERT_TRUE(world.RunUntil([&] { return world.held.size() == 2; }));
  world.world.RunFor(kSecondNs);
  EXPECT_TRUE(world.held[0].unwanted);
  EXPECT_FALSE(world.held[1].unwanted);
  AtHome(world.server_home, [&] {
    world.held[0].reply.Send(Status::Ok(), std::string("first"));
    world.held[1].reply.Send(Status::Ok(), std::string("second"));
  });
  ASSERT_TRUE(world.Finish(second));
  EXPECT_EQ(second.reply_head, "second");
  EXPECT_TRUE(world.IsClean());
}

}  // namespace
}  // namespace fusewire::rpc
