// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/rpc/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/rpc/world_test.h"

namespace fusewire::rpc {
namespace {

using testing::HasSubstr;

TEST(Server, TwoMethodsOfOneNumberAreRefused) {
  WorldOptions options;
  options.with_server = false;
  RpcWorld world(std::move(options));
  std::vector<Method> methods;
  methods.push_back(MakeMethod(7, "one", [](Request, Reply) {}));
  methods.push_back(MakeMethod(7, "other", [](Request, Reply) {}));
  auto opened = Server::Open(*world.client_task, {"", 5555}, std::move(methods));
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().code(), Code::kInvalid);
  EXPECT_THAT(opened.status().cause(), HasSubstr("\"one\" and \"other\""));
}

TEST(Server, AnOccupiedPortIsReported) {
  RpcWorld world;
  auto second =
      task::Task::Make(pipe::Options(), reactor::Pool::Around(world.server_home), world.world.MakeTransport("server"));
  auto opened = Server::Open(*second, {"", 5555}, {});
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().code(), Code::kInvalid);
  EXPECT_THAT(opened.status().ToString(), HasSubstr("Address already in use"));
  EXPECT_FALSE(opened.status().next().empty());
}

TEST(Server, ATaskHasOneServerAndOneListener) {
  RpcWorld world;
  auto second = Server::Open(*world.server_task, {});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), Code::kInvalid);
  EXPECT_THAT(second.status().cause(), HasSubstr("service 1 (rpc) is served here already"));
  EXPECT_THAT(world.server_task->Listen({"", 5556}).cause(), HasSubstr("listens already"));
  ProbeCall call(kEcho, "still there");
  ASSERT_TRUE(world.Ask(&call));
  EXPECT_TRUE(call.status.ok());
}

TEST(Server, TellsTheHandlerItsPeer) {
  std::string name, address;
  WorldOptions options;
  options.more_methods = [&] {
    std::vector<Method> methods;
    methods.push_back(MakeMethod(10, "who", [&](Request request, Reply reply) {
      EXPECT_EQ(request.method, 10);
      name = request.peer->name;
      address = request.peer->address;
      reply.Send(Status::Ok());
    }));
    return methods;
  };
  RpcWorld world(std::move(options));
  ProbeCall call(10);
  ASSERT_TRUE(world.Ask(&call));
  EXPECT_TRUE(call.status.ok());
  EXPECT_EQ(name, "worker:0");
  EXPECT_THAT(address, HasSubstr("client:"));
}

// Memory of the handler's own for the body of a request.
class OwnMemory final : public RequestSink {
 public:
  OwnMemory(uint64_t bytes, int* alive) : memory_(bytes), part_(memory_.data(), memory_.size()), alive_(alive) {
    ++*alive_;
  }
  ~OwnMemory() override { --*alive_; }
  pipe::Landing Where() override { return pipe::Landing::Into(&part_, 1); }
  ConstBytes bytes() const { return ConstBytes(memory_.data(), memory_.size()); }

 private:
  std::vector<uint8_t> memory_;
  Bytes part_;
  int* const alive_;
};

class Sinks {
 public:
  WorldOptions Options() {
    WorldOptions options;
    options.faults.bytes_per_second = 100 * 1000 * 1000;
    options.more_methods = [this] {
      std::vector<Method> methods;
      methods.push_back(MakeMethod(10, "sink", [this](Request request, Reply reply) {
        EXPECT_TRUE(request.body.empty());
        ++handled;
        matches = request.sink != nullptr && HasPattern(static_cast<OwnMemory&>(*request.sink).bytes(), 5);
        reply.Send(Status::Ok());
      }));
      methods.back().make_sink = [this](ConstBytes head,
                                        const SegmentSizes& sizes) -> Result<std::unique_ptr<RequestSink>> {
        if (head.ToString() == "full") return Status::Overloaded("the table is full").Next("try another server");
        return std::unique_ptr<RequestSink>(std::make_unique<OwnMemory>(sizes.total(), &alive));
      };
      return methods;
    };
    return options;
  }
  int alive = 0;
  int handled = 0;
  bool matches = false;
};

TEST(Server, LandsARequestWhereTheMethodSays) {
  Sinks sinks;
  RpcWorld world(sinks.Options());
  for (size_t size : {10, 20000, 3000000}) {
    ProbeCall call(10);
    call.body = PatternSegments({size}, 5);
    ASSERT_TRUE(world.Ask(&call));
    EXPECT_TRUE(call.status.ok()) << call.status.ToString();
    EXPECT_TRUE(sinks.matches);
    EXPECT_EQ(sinks.alive, 0);
  }
  EXPECT_TRUE(world.IsClean());
}

TEST(Server, ASinkThatCannotBeMadeFailsOnlyItsCall) {
  Sinks sinks;
  RpcWorld world(sinks.Options());
  ProbeCall call(10, "full");
  call.body = PatternSegments({3000000}, 5);
  ASSERT_TRUE(world.Ask(&call));
  EXPECT_EQ(call.status.code(), Code::kOverloaded);
  EXPECT_EQ(call.status.cause(), "the table is full");
  EXPECT_EQ(call.status.next(), "try another server");
  EXPECT_EQ(sinks.handled, 0);
  ProbeCall next(kEcho, "next");
  ASSERT_TRUE(world.Ask(&next));
  EXPECT_TRUE(next.status.ok());
  EXPECT_EQ(world.client->Snapshot().connects, 1u);
  EXPECT_TRUE(world.IsClean());
}

TEST(Server, ASinkIsGivenBackWhateverHappens) {
  for (int ending = 0; ending < 3; ++ending) {
    SCOPED_TRACE(ending);
    Sinks sinks;
    RpcWorld world(sinks.Options());
    ProbeCall call(10);
    call.body = PatternSegments({3000000}, 5);
    world.client->Start(&call);
    ASSERT_TRUE(world.RunUntil([&] { return sinks.alive == 1; }));
    world.world.RunFor(5 * kMillisecondNs);  // in the middle of the body
    if (ending == 0) call.Cancel();
    if (ending == 1) world.world.Cut("client", "server");
    if (ending == 2) world.server.reset();
    ASSERT_TRUE(world.RunUntil([&] { return sinks.alive == 0; }));
    ASSERT_TRUE(world.Finish(call));
    EXPECT_EQ(sinks.handled, 0);
    EXPECT_FALSE(call.status.ok());
  }
}

// ---- the end of a server, and of its callers ----

TEST(Server, ThatHasAnsweredIsDialledAgainSoon) {
  RpcWorld world;
  for (int turn = 0; turn < 20; ++turn) {
    ProbeCall before(kEcho), after(kEcho);
    ASSERT_TRUE(world.Ask(&before));
    world.world.Cut("client", "server");
    world.world.RunFor(kMillisecondNs);
    const int64_t begun_ns = world.world.clock()->NowNs();
    ASSERT_TRUE(world.Ask(&after));
    EXPECT_TRUE(after.status.ok()) << after.status.ToString();
    EXPECT_LT(world.world.clock()->NowNs() - begun_ns, 50 * kMillisecondNs) << turn;
  }
}

TEST(Server, AnAnswerToACallerThatIsGoneGoesNowhere) {
  RpcWorld world;
  ProbeCall call(kHold);
  world.client->Start(&call);
  ASSERT_TRUE(world.RunUntil([&] { return world.held.size() == 1; }));
  world.client.reset();
  ASSERT_TRUE(world.RunUntil([&] { return world.held[0].unwanted; }));
  EXPECT_TRUE(world.held[0].reply.unwanted());
  ASSERT_TRUE(world.RunUntil([&] { return world.server->calls_in_flight() == 0; }));
  AtHome(world.server_home, [&] { world.held[0].reply.Send(Status::Ok(), ConstBytes(), PatternSegments({100}, 1)); });
}

TEST(Server, AnAnswerMayComeAfterTheEndOfTheServer) {
  for (bool dropped : {false, true}) {
    RpcWorld world;
    ProbeCall call(kHold);
    world.client->Start(&call);
    ASSERT_TRUE(world.RunUntil([&] { return world.held.size() == 1; }));
    world.server.reset();
    EXPECT_TRUE(world.held[0].unwanted);
    if (dropped) {
      world.held.clear();
    } else {
      world.held[0].reply.Send(Status::Ok());
    }
    ASSERT_TRUE(world.Finish(call));
    EXPECT_EQ(call.status.code(), Code::kUnavailable);
    EXPECT_THAT(call.status.cause(), HasSubstr("the server is shutting down"));
  }
}

TEST(Server, AHandlerMayAnswerAfterACancel) {
  RpcWorld world;
  ProbeCall one(kHold), other(kHold);
  world.client->Start(&one);
  world.client->Start(&other);
  ASSERT_TRUE(world.RunUntil([&] { return world.held.size() == 2; }));
  // Each also lets the other go: while the PeerCalls is destroyed, and by a cancel.
  AtHome(world.server_home, [&] {
    for (auto& held : world.held) {
      held.reply.OnUnwanted([&](Unwanted) {
        for (auto& each : world.held) {
          Reply reply = std::move(each.reply);
          if (reply) reply.Send(Status::Cancelled("nobody wants it"));
        }
      });
    }
  });
  one.Cancel();
  ASSERT_TRUE(world.RunUntil([&] { return one.dones + other.dones == 2; }));
  EXPECT_EQ(other.status.cause(), "nobody wants it");
  EXPECT_TRUE(world.IsClean());
  one.Cancel();
  world.held.clear();
  ProbeCall last(kHold);
  world.client->Start(&last);
  world.client->Start(&other);
  ASSERT_TRUE(world.RunUntil([&] { return world.held.size() == 2; }));
  AtHome(world.server_home, [&] { world.held[0].reply.OnUnwanted([&](Unwanted) { world.held.clear(); }); });
  world.world.Cut("client", "server");
  ASSERT_TRUE(world.RunUntil([&] { return last.dones == 1 && other.dones == 2 && world.held.empty(); }));
}

TEST(Server, ClosingRefusesNewCallsAndAnswersOldOnes) {
  RpcWorld world;
  ProbeCall old(kHold), fresh(kEcho);
  world.client->Start(&old);
  ASSERT_TRUE(world.RunUntil([&] { return world.held.size() == 1; }));
  // Close(grace) would turn the clock: here the goodbye is held back by hand.
  world.held[0].reply.Send(Status::Ok(), std::string("answered"));
  world.server->Close(0);
  ASSERT_TRUE(world.Finish(old));
  EXPECT_TRUE(old.status.ok()) << "an answer that was given before the goodbye arrives: " << old.status.ToString();
  world.client->Start(&fresh);
  ASSERT_TRUE(world.Finish(fresh));
  EXPECT_EQ(fresh.status.code(), Code::kUnavailable);
}

}  // namespace
}  // namespace fusewire::rpc
