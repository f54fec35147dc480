// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A client against a server that lies, and a server against such a client.
#include "fusewire/rpc/liar_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fusewire::rpc {
namespace {

using testing::HasSubstr;

WorldOptions NoServer() {
  WorldOptions options;
  options.with_server = false;
  options.client_pipe.window_bytes = 16 << 20;  // the liar waits for nothing
  options.client_pipe.window_budget_bytes = uint64_t{32} << 30;
  return options;
}

// Log lines about liars are expected.
class Liars : public testing::Test {
 protected:
  Liars() { SetLogLevel(LogLevel::kOff); }
  ~Liars() override { SetLogLevel(LogLevel::kWarn); }
};

// ---- a server that lies ----

class LyingServers : public Liars {
 protected:
  LyingServers() : world_(NoServer()), liar_(&world_) {}

  // The calls are on their way to the liar, which has them.
  void Start(const std::vector<ProbeCall*>& calls) {
    for (ProbeCall* call : calls) world_.client->Start(call);
    size_t expected = liar_.heard.messages.size() + calls.size();
    ASSERT_TRUE(world_.RunUntil([&] { return liar_.heard.messages.size() == expected; }));
  }
  uint64_t IdOf(size_t index) { return liar_.heard.messages[index].call; }

  // Both calls end as the pipe does, which is closed for a broken rule.
  void ExpectCorrupt(ProbeCall* one, ProbeCall* other, const std::string& cause) {
    ASSERT_TRUE(world_.RunUntil([&] { return one->dones > 0 && other->dones > 0; }, 2 * kSecondNs));
    for (ProbeCall* call : {one, other}) {
      EXPECT_EQ(call->dones, 1);
      EXPECT_EQ(call->status.code(), Code::kCorrupt) << call->status.ToString();
      EXPECT_THAT(call->status.cause(), HasSubstr(cause));
      EXPECT_EQ(call->status.peer(), "server:5555");
      EXPECT_FALSE(call->status.next().empty());
    }
    // And the client goes on, over a new connection.
    ASSERT_TRUE(world_.RunUntil([&] { return liar_.pipe == nullptr; }));
    ProbeCall again(kEcho);
    size_t before = liar_.heard.messages.size();
    world_.client->Start(&again);
    ASSERT_TRUE(world_.RunUntil([&] { return liar_.heard.messages.size() > before; }));
    liar_.Say(MakeMessage(wire::FrameKind::kReply, IdOf(before)));
    ASSERT_TRUE(world_.Finish(again));
    EXPECT_TRUE(again.status.ok()) << again.status.ToString();
  }

  RpcWorld world_;
  LyingServer liar_;
};

TEST_F(LyingServers, AnAnswerTwiceIsLate) {
  ProbeCall call(kEcho);
  Start({&call});
  liar_.Say(MakeMessage(wire::FrameKind::kReply, IdOf(0)));
  liar_.Say(MakeMessage(wire::FrameKind::kReply, IdOf(0), PatternSegments({1000000}, 1)));
  liar_.Say(MakeMessage(wire::FrameKind::kReplyPart, IdOf(0), PatternSegments({10}, 1)));
  ASSERT_TRUE(world_.Finish(call));
  world_.world.RunFor(kSecondNs);
  EXPECT_TRUE(call.status.ok());
  EXPECT_EQ(call.dones, 1);
  PeerSnapshot snapshot = world_.client->Snapshot();
  EXPECT_EQ(snapshot.late_replies, 2u);
  EXPECT_TRUE(snapshot.up);
}

TEST_F(LyingServers, AnAnswerToACallThatWasNeverMadeIsCorrupt) {
  uint64_t lies[] = {Id(1000, 1), Id(0, 2), Id(0, 1u << 30), Id(UINT32_MAX, UINT32_MAX), 0};
  for (uint64_t lie : lies) {
    SCOPED_TRACE(lie);
    ProbeCall one(kEcho), other(kEcho);
    Start({&one, &other});
    wire::CallId first = wire::UnpackCallId(IdOf(liar_.heard.messages.size() - 2));
    // Generations count on from test to test: lie about the present ones.
    uint64_t id = lie == Id(0, 2) ? Id(first.slot, first.generation + 1) : lie;
    if (lie == 0) id = Id(first.slot + 100, 0);
    liar_.Say(MakeMessage(wire::FrameKind::kReply, id));
    ExpectCorrupt(&one, &other, "an answer to a call that was never made");
  }
}

TEST_F(LyingServers, AMalformedAnswerIsCorrupt) {
  for (auto kind : {wire::FrameKind::kCall, wire::FrameKind::kMessage}) {
    ProbeCall one(kEcho), other(kEcho);
    Start({&one, &other});
    liar_.Say(MakeMessage(kind, IdOf(0)));
    ExpectCorrupt(&one, &other, "a client was sent a");
  }
}

TEST_F(LyingServers, AnErrorThatCannotBeReadIsCorrupt) {
  ProbeCall one(kEcho), other(kEcho);
  Start({&one, &other});
  pipe::Message message = MakeMessage(wire::FrameKind::kReply, IdOf(0));
  message.aux = static_cast<uint32_t>(Code::kInvalid);
  std::string head = "nonsense";
  message.head = head;
  liar_.Say(std::move(message));
  ExpectCorrupt(&one, &other, "status: cut off");
}

TEST_F(LyingServers, AnErrorWithABodyIsCorrupt) {
  ProbeCall one(kEcho), other(kEcho);
  Start({&one, &other});
  pipe::Message message = MakeMessage(wire::FrameKind::kReply, IdOf(0), PatternSegments({100}, 1));
  message.aux = static_cast<uint32_t>(Code::kInvalid);
  liar_.Say(std::move(message));
  ExpectCorrupt(&one, &other, "an error with a body");
}

// The part is landing in the call's memory when the call would end.
TEST_F(LyingServers, AnAnswerInsideAPartOfTheSameCallIsCorrupt) {
  for (size_t inner_bytes : {0, 100}) {
    ProbeCall one(kEcho), other(kEcho);
    Start({&one, &other});
    uint64_t id = IdOf(liar_.heard.messages.size() - 2);
    liar_.Say(MakeMessage(wire::FrameKind::kReplyPart, id, PatternSegments({8000000}, 1)));
    Buffers body;
    if (inner_bytes > 0) body.push_back(PatternBuffer(inner_bytes, 2));
    pipe::Message inner = MakeMessage(wire::FrameKind::kReply, id, std::move(body));
    inner.express = true;  // between two chunks of the part
    liar_.Say(std::move(inner));
    ExpectCorrupt(&one, &other, "an answer begins inside another");
    EXPECT_TRUE(one.parts.empty());
  }
}

// ---- a client that lies ----

class LyingClients : public Liars {
 protected:
  void ExpectCutOff(LyingClient* liar, const std::string& cause) {
    ASSERT_TRUE(world_.RunUntil([&] { return !liar->heard.closed.empty(); }, 2 * kSecondNs));
    EXPECT_EQ(liar->heard.closed[0].code(), Code::kCorrupt) << liar->heard.closed[0].ToString();
    EXPECT_THAT(liar->heard.closed[0].cause(), HasSubstr(cause));
    ExpectOthersAreServed();
    EXPECT_TRUE(world_.RunUntil([&] { return world_.server->calls_in_flight() == 0; }, kSecondNs));
  }
  void ExpectOthersAreServed() {
    ProbeCall call(kEcho, "hello");
    ASSERT_TRUE(world_.Ask(&call));
    EXPECT_EQ(call.reply_head, "hello");
  }
  static pipe::Message MakeCall(uint64_t id, uint16_t method, Buffers body = Buffers()) {
    pipe::Message message = MakeMessage(wire::FrameKind::kCall, id, std::move(body));
    message.method = method;
    return message;
  }

  RpcWorld world_;
};

TEST_F(LyingClients, ACallThatComesTwiceIsCorrupt) {
  LyingClient liar(&world_);
  liar.Say(MakeCall(Id(0, 5), kHold));
  liar.Say(MakeCall(Id(0, 5), kHold));
  ExpectCutOff(&liar, "a call came twice: slot 0, generation 5");
}

TEST_F(LyingClients, ACallFromThePastIsCorrupt) {
  LyingClient liar(&world_);
  liar.Say(MakeCall(Id(0, 5), kEcho));
  liar.Say(MakeCall(Id(0, 4), kEcho));
  ExpectCutOff(&liar, "a call came twice");
}

TEST_F(LyingClients, ASlotOverTheLimitIsCorrupt) {
  LyingClient liar(&world_);
  liar.Say(MakeCall(Id(65536, 1), kEcho));
  ExpectCutOff(&liar, "call slot 65536 is over calls_in_flight_max 65536");
}

TEST_F(LyingClients, AMalformedCallIsCorrupt) {
  LyingClient liar(&world_);
  liar.Say(MakeMessage(wire::FrameKind::kReply, Id(0, 1)));
  ExpectCutOff(&liar, "a server was sent a reply");
}

TEST_F(LyingClients, ACancelOfNothingIsIgnored) {
  LyingClient liar(&world_);
  for (uint64_t id : {Id(0, 0), Id(0, 1), Id(77, 7), Id(UINT32_MAX, UINT32_MAX)}) liar.SayCancel(id);
  liar.Say(MakeCall(Id(3, 3), kEcho));
  ASSERT_TRUE(world_.RunUntil([&] { return liar.heard.messages.size() == 1; }));
  for (uint64_t id : {Id(3, 3), Id(3, 4), Id(0, 0), Id(2, 1)}) liar.SayCancel(id);
  world_.world.RunFor(kSecondNs);
  EXPECT_TRUE(liar.connected());
}

TEST_F(LyingClients, MethodsThatAreNotThereCostNoMemory) {
  LyingClient liar(&world_);
  for (uint32_t i = 0; i < 3000; ++i) liar.Say(MakeCall(Id(0, i + 1), static_cast<uint16_t>(1000 + i)));
  ASSERT_TRUE(world_.RunUntil([&] { return liar.heard.messages.size() == 3000; }));
  ExpectOthersAreServed();
  Snapshot snapshot = world_.server->Snapshot();
  ASSERT_EQ(snapshot.methods.size(), 2u);
  EXPECT_EQ(snapshot.methods[0].name, "echo");
  EXPECT_EQ(snapshot.methods[1].name, "unknown");
  EXPECT_EQ(snapshot.methods[1].calls, 3000u);
  EXPECT_EQ(snapshot.methods[1].errors, 3000u);
}

// A call that was given up is no longer in its caller's way, but its handler may still hold it.
TEST(LyingClient, CallsThatAreGivenUpAreBoundedToo) {
  WorldOptions options;
  options.server.calls_in_flight_max = 100;
  RpcWorld world(std::move(options));
  LyingClient liar(&world);
  for (uint32_t i = 1; i <= 1000; ++i) {
    pipe::Message call = MakeMessage(wire::FrameKind::kCall, Id(i % 50, i));
    call.method = kHold;
    liar.Say(std::move(call));
  }
  ASSERT_TRUE(world.RunUntil([&] { return liar.heard.messages.size() == 900; }));
  EXPECT_EQ(world.held.size(), 100u);
  EXPECT_EQ(world.server->calls_in_flight(), 100u);
  for (const wire::FrameHeader& answer : liar.heard.messages) {
    EXPECT_EQ(answer.aux, static_cast<uint32_t>(Code::kOverloaded));
  }
}

// Generations are compared as they wrap around: three steps lead back to where the slot was. The first call's memory is
// being written, and would be handed out, and freed, at the end of the second.
TEST(LyingClient, AReusedCallIdWhileItLandsIsCorrupt) {
  WorldOptions options;
  options.server_pipe.window_bytes = 16 << 20;  // the first begins at once
  options.server_pipe.window_budget_bytes = uint64_t{32} << 30;
  RpcWorld world(std::move(options));
  LyingClient liar(&world);
  const auto say = [&liar](uint32_t generation, size_t bytes, bool express) {
    pipe::Message call = MakeMessage(wire::FrameKind::kCall, Id(0, generation), PatternSegments({bytes}, generation));
    call.method = kEcho;
    call.express = express;  // between two chunks of the first
    liar.Say(std::move(call));
  };
  SetLogLevel(LogLevel::kOff);
  say(5, 8000000, false);
  for (uint32_t generation : {5U + 0x7fffffffU, 5U + 0xfffffffeU, 5U}) say(generation, 10, true);
  ASSERT_TRUE(world.RunUntil([&] { return !liar.heard.closed.empty(); }, 2 * kSecondNs));
  EXPECT_THAT(liar.heard.closed[0].cause(), HasSubstr("a call came twice: slot 0, generation 5"));
  SetLogLevel(LogLevel::kWarn);
  ProbeCall call(kEcho, "hello");
  ASSERT_TRUE(world.Ask(&call));
  EXPECT_TRUE(call.status.ok());
}

TEST_F(LyingClients, ANewCallInASlotEndsTheOldOne) {
  LyingClient liar(&world_);
  liar.Say(MakeCall(Id(0, 1), kHold));
  ASSERT_TRUE(world_.RunUntil([&] { return world_.held.size() == 1; }));
  liar.Say(MakeCall(Id(0, 2), kHold));
  ASSERT_TRUE(world_.RunUntil([&] { return world_.held.size() == 2; }));
  EXPECT_TRUE(world_.held[0].unwanted);
  EXPECT_FALSE(world_.held[1].unwanted);
  AtHome(world_.server_home, [&] {
    world_.held[0].reply.Send(Status::Ok(), std::string("old"));
    world_.held[1].reply.Send(Status::Ok(), std::string("new"));
  });
  ASSERT_TRUE(world_.RunUntil([&] { return !liar.heard.messages.empty(); }));
  world_.world.RunFor(kSecondNs);
  ASSERT_EQ(liar.heard.messages.size(), 1u);
  EXPECT_EQ(liar.heard.heads[0], "new");
}

}  // namespace
}  // namespace fusewire::rpc
