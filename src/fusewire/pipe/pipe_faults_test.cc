// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Pipes that end, and peers that leave, lie or become silent: at any moment, each end is notified once, and every Done
// runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "fusewire/base/random.h"
#include "fusewire/pipe/pipe.h"
#include "fusewire/pipe/script_test.h"
#include "fusewire/pipe/world_test.h"

namespace fusewire::pipe {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using transport::LoopbackDeath;
using transport::LoopbackFaults;
using wire::FrameKind;

// A pair under way: long bodies both ways, express between them, more in the queue than the credit covers.
class Busy {
 public:
  explicit Busy(uint64_t seed, const LoopbackFaults& faults = Nasty())
      : pair(seed, faults, SmallWindows(), SmallWindows()), bulk_(600 * 1024, 'b') {}

  // Everything that happens in the first `steps` steps of the world, and then `fault`.
  void RunUntilFault(int steps, const std::function<void()>& fault) {
    pair.Dial();
    for (int i = 0; i < steps; ++i) {
      if (pair.client != nullptr && to_server.made() == 0) SendSome(pair.client.get(), &to_server);
      if (pair.server != nullptr && to_client.made() == 0) SendSome(pair.server.get(), &to_client);
      pair.world.Step();
    }
    fault();
  }

  PipePair pair;
  Outcomes to_server, to_client;

 private:
  void SendSome(Pipe* pipe, Outcomes* outcomes) {
    for (uint64_t i = 0; i < 4; ++i) {
      pair.Send(pipe, MakeMessage(FrameKind::kCall, i, "head", bulk_), outcomes->Next());
      pair.Send(pipe, MakeMessage(FrameKind::kMessage, i, "urgent", "", true), outcomes->Next());
    }
  }
  const std::string bulk_;
};

void ExpectTyped(const Status& why) {
  EXPECT_THAT(why.code(), AnyOf(Code::kUnavailable, Code::kTimeout, Code::kCorrupt, Code::kCancelled))
      << why.ToString();
  EXPECT_FALSE(why.cause().empty());
  EXPECT_FALSE(why.peer().empty()) << why.ToString();
  EXPECT_FALSE(why.phase().empty()) << why.ToString();
  EXPECT_FALSE(why.next().empty()) << why.ToString();
}

// How many steps a busy pair takes from the dialling to the last message, roughly.
constexpr int kSteps = 400;

// ---- closing ----

TEST(PipeFaults, ClosingAtAnyMomentEndsEverythingOnce) {
  for (int step = 0; step < kSteps; step += 1 + step / 40) {
    SCOPED_TRACE(step);
    Busy busy(static_cast<uint64_t>(step + 1));
    PipePair& pair = busy.pair;
    bool had_client = false, had_server = false;
    busy.RunUntilFault(step, [&] {
      had_client = pair.client != nullptr;
      had_server = pair.server != nullptr;
      if (had_client) {
        pair.client_task.AtHome([&] {
          pair.client->Close(Status::Cancelled("that's enough"));
          pair.client->Close(Status::Cancelled("again"));
          EXPECT_EQ(pair.client_receiver.closed, 0);  // not from inside the call
        });
      }
    });
    if (!had_client) continue;
    ASSERT_TRUE(pair.RunUntil(
        [&] { return pair.client_receiver.closed > 0 && (!had_server || pair.server_receiver.closed > 0); }));
    EXPECT_THAT(pair.client_receiver.why.ToString(), HasSubstr("cancelled: that's enough, peer "));
    busy.to_server.ExpectOnceEach();
    busy.to_client.ExpectOnceEach();
    if (pair.server_receiver.opened > 0 && pair.client_receiver.opened > 0) {
      EXPECT_THAT(pair.server_receiver.why.ToString(), HasSubstr("the peer said goodbye: that's enough"));
    }
  }
}

TEST(PipeFaults, BothMayCloseAtOnce) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Busy busy(seed);
    PipePair& pair = busy.pair;
    busy.RunUntilFault(100, [&] {
      if (pair.client != nullptr) pair.client_task.AtHome([&] { pair.client->Close(Status::Cancelled("one")); });
      if (pair.server != nullptr) pair.server_task.AtHome([&] { pair.server->Close(Status::Cancelled("other")); });
    });
    ASSERT_TRUE(pair.RunUntil([&] { return pair.client_receiver.closed > 0 && pair.server_receiver.closed > 0; },
                              3 * kSecondNs));
    busy.to_server.ExpectOnceEach();
    busy.to_client.ExpectOnceEach();
  }
}

TEST(PipeFaults, AGoodbyeThatIsNotReadIsGivenUp) {
  LoopbackFaults line;
  PipePair pair(1, line);
  ASSERT_TRUE(pair.Connect());
  std::string bulk(8 << 20, 'b');
  Outcomes outcomes;
  pair.world.PauseHost("server");
  pair.Send(pair.client.get(), MakeMessage(FrameKind::kCall, 1, "", bulk), outcomes.Next());
  pair.world.RunFor(kSecondNs);
  pair.client_task.AtHome([&] { pair.client->Close(Status::Cancelled("enough")); });
  int64_t began_ns = pair.world.clock()->NowNs();
  ASSERT_TRUE(pair.RunUntil([&] { return pair.client_receiver.closed > 0; }));
  EXPECT_LE(pair.world.clock()->NowNs() - began_ns, Options().goodbye_ns_max + 10 * kMillisecondNs);
  outcomes.ExpectOnceEach();
}

// It was once closed while the refusal was still on its way to the network.
TEST(PipeFaults, AStrangerIsToldWhyAlsoByASlowNetwork) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    LoopbackFaults faults = Nasty();
    faults.late_answer_chance = 1;
    Options other;
    other.cluster = "another";
    PipePair pair(seed, faults, Options(), other);
    pair.Dial();
    ASSERT_TRUE(pair.RunUntil([&] { return pair.client_receiver.closed > 0; }, kSecondNs));
    EXPECT_EQ(pair.client_receiver.why.code(), Code::kRefused) << pair.client_receiver.why.ToString();
    EXPECT_THAT(pair.client_receiver.why.cause(), HasSubstr("the peer turned us away"));
    EXPECT_EQ(pair.server_receiver.why.code(), Code::kRefused) << pair.server_receiver.why.ToString();
  }
}

TEST(PipeFaults, NothingIsSentOnAClosedPipe) {
  PipePair pair(1);
  ASSERT_TRUE(pair.Connect());
  Outcomes outcomes;
  pair.client_task.AtHome([&] {
    pair.client->Close(Status::Cancelled("enough"));
    pair.client->Send(MakeMessage(FrameKind::kCall, 1, ""), outcomes.Next());
    pair.client->Cancel(1);
    EXPECT_EQ(outcomes.come(), 0u);
  });
  ASSERT_TRUE(pair.RunUntil([&] { return pair.client_receiver.closed > 0 && pair.server_receiver.closed > 0; }));
  pair.Send(pair.client.get(), MakeMessage(FrameKind::kCall, 2, ""), outcomes.Next());
  pair.world.RunFor(kMillisecondNs);
  outcomes.ExpectOnceEach();
  EXPECT_THAT(outcomes.at(0).ToString(), HasSubstr("cancelled: enough"));
  EXPECT_THAT(outcomes.at(1).ToString(), HasSubstr("cancelled: enough"));
  EXPECT_EQ(pair.server_receiver.messages, 0u);
}

// The Dones of what waited in a queue, or was half sent, were once forgotten.
TEST(PipeFaults, ADestroyedPipeKeepsItsWordToEveryDone) {
  for (int step : {0, 5, 20, 50, 100, 200}) {
    Busy busy(static_cast<uint64_t>(step));
    PipePair& pair = busy.pair;
    busy.RunUntilFault(step, [&] {
      pair.client_task.AtHome([&] { pair.client.reset(); });
      pair.server_task.AtHome([&] { pair.server.reset(); });
    });
    pair.world.RunFor(kMillisecondNs);
    busy.to_server.ExpectOnceEach();
    busy.to_client.ExpectOnceEach();
    EXPECT_EQ(pair.client_receiver.closed + pair.server_receiver.closed, 0);
    EXPECT_EQ(pair.server_task.context.receive_budget().used_bytes(), 0u);
  }
}

TEST(PipeFaults, AReceiverMayCloseFromAnyOfItsCalls) {
  for (const char* where : {"open", "header", "message"}) {
    SCOPED_TRACE(where);
    Busy busy(3);
    PipePair& pair = busy.pair;
    auto close = [&pair] { pair.server->Close(Status::Cancelled("from inside")); };
    if (std::string(where) == "open") pair.server_receiver.on_open = close;
    auto close_and_go_on = [close](const wire::FrameHeader&) {
      close();
      return Status::Ok();
    };
    if (std::string(where) == "header") pair.server_receiver.on_header = close_and_go_on;
    if (std::string(where) == "message") pair.server_receiver.on_message = close_and_go_on;
    busy.RunUntilFault(100, [] {});
    ASSERT_TRUE(pair.RunUntil([&] { return pair.client_receiver.closed > 0 && pair.server_receiver.closed > 0; }));
    EXPECT_LE(pair.server_receiver.messages, 1u);
    EXPECT_THAT(pair.client_receiver.why.ToString(), AnyOf(HasSubstr("from inside"), HasSubstr("the peer closed")));
    busy.to_server.ExpectOnceEach();
    busy.to_client.ExpectOnceEach();
  }
}

TEST(PipeFaults, AnErrorOfTheReceiverEndsThePipeWithItsWords) {
  LogLines log;
  for (bool in_header : {true, false}) {
    PipePair pair(1);
    auto refuse = [](const wire::FrameHeader& header) {
      return header.call == 2 ? Status::Corrupt("a head that does not decode") : Status::Ok();
    };
    (in_header ? pair.server_receiver.on_header : pair.server_receiver.on_message) = refuse;
    ASSERT_TRUE(pair.Connect());
    for (uint64_t call = 1; call <= 3; ++call) pair.Send(pair.client.get(), MakeMessage(FrameKind::kCall, call, ""));
    ASSERT_TRUE(pair.RunUntil([&] { return pair.client_receiver.closed > 0 && pair.server_receiver.closed > 0; }));
    EXPECT_EQ(pair.server_receiver.why.code(), Code::kCorrupt);
    EXPECT_EQ(pair.client_receiver.why.code(), Code::kCorrupt);
    EXPECT_THAT(pair.client_receiver.why.cause(), HasSubstr("a head that does not decode"));
    ExpectTyped(pair.server_receiver.why);
    ExpectTyped(pair.client_receiver.why);
  }
  EXPECT_THAT(log.lines,
              ElementsAre(HasSubstr("a head that does not decode"), HasSubstr("a head that does not decode")));
}

// ---- peers that go ----

enum class Fault { kKill, kPower, kCut, kHalfClose, kRestart };

TEST(PipeFaults, APeerThatGoesAtAnyMomentIsMissedInTime) {
  for (Fault fault : {Fault::kKill, Fault::kPower, Fault::kCut, Fault::kHalfClose, Fault::kRestart}) {
    for (int step = 0; step < kSteps; step += 1 + step / 20) {
      SCOPED_TRACE(testing::Message() << "fault " << static_cast<int>(fault) << " after step " << step);
      Busy busy(static_cast<uint64_t>(step + 1));
      PipePair& pair = busy.pair;
      int64_t began_ns = 0;
      bool had_client = false;
      busy.RunUntilFault(step, [&] {
        began_ns = pair.world.clock()->NowNs();
        had_client = pair.client != nullptr;
        if (fault == Fault::kKill) pair.world.KillHost("server", LoopbackDeath::kReset);
        if (fault == Fault::kPower || fault == Fault::kRestart) pair.world.KillHost("server", LoopbackDeath::kSilent);
        if (fault == Fault::kRestart) pair.world.RestartHost("server");
        if (fault == Fault::kCut) pair.world.Cut("client", "server");
        if (fault == Fault::kHalfClose) pair.world.HalfClose("server", "client");
      });
      if (!had_client) continue;
      ASSERT_TRUE(pair.RunUntil([&] { return pair.client_receiver.closed > 0; }));
      int64_t limit_ns = fault == Fault::kPower ? 21 * kSecondNs : fault == Fault::kRestart ? 6 * kSecondNs : kSecondNs;
      EXPECT_LE(pair.world.clock()->NowNs() - began_ns, limit_ns);
      ExpectTyped(pair.client_receiver.why);
      busy.to_server.ExpectOnceEach();
      if (fault == Fault::kCut || fault == Fault::kHalfClose) {
        ASSERT_TRUE(pair.RunUntil([&] { return pair.server == nullptr || pair.server_receiver.closed > 0; }));
        busy.to_client.ExpectOnceEach();
        if (pair.server != nullptr) ExpectTyped(pair.server_receiver.why);
      }
    }
  }
}

// ---- a storm: everything at random, from a seed ----

TEST(PipeFaults, MessagesAreWholeOrLostUnderAllFaults) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    LoopbackFaults faults = Nasty();
    if (random.Chance(0.3)) faults.cut_chance = 0.002;
    if (random.Chance(0.3)) faults.drop_chance = 0.002;
    if (random.Chance(0.3)) faults.duplicate_chance = 0.002;
    LogLines log;  // a dropped or repeated frame is reported as corrupt
    PipePair pair(seed, faults, SmallWindows(), SmallWindows());
    pair.Dial();
    Outcomes outcomes;
    std::vector<std::string> bodies;
    for (uint32_t i = 0; i < 60; ++i) bodies.push_back(Payload(random.Below(1 << random.Below(19)), i));
    for (uint64_t i = 0; i < bodies.size();) {
      pair.world.Step();
      Pipe* pipe = random.Chance(0.5) ? pair.client.get() : pair.server.get();
      if (pipe == nullptr) {
        if (pair.client_receiver.closed > 0 || pair.world.clock()->NowNs() > 10 * kSecondNs) break;
        continue;
      }
      bool express = bodies[i].size() < 4096 && random.Chance(0.5);
      pair.Send(pipe, MakeMessage(FrameKind::kCall, i, "head", bodies[i], express), outcomes.Next());
      if (random.Chance(0.1)) {
        uint64_t call = random.Below(i + 1);
        Task& task = pipe == pair.client.get() ? pair.client_task : pair.server_task;
        task.AtHome([&] { pipe->Cancel(call); });
      }
      ++i;
    }
    pair.world.RunFor(60 * kSecondNs);
    if (pair.client != nullptr) pair.client_task.AtHome([&] { pair.client->Close(Status::Cancelled("the end")); });
    pair.world.RunFor(60 * kSecondNs);
    outcomes.ExpectOnceEach();
    for (const RecordingReceiver* receiver : {&pair.client_receiver, &pair.server_receiver}) {
      EXPECT_EQ(receiver->closed, receiver->pipe == nullptr ? 0 : 1);
      uint64_t last_in_order = 0;
      for (const RecordingReceiver::Got& got : receiver->got) {
        // The body has no check: what is left out of it or doubled in it shows in the frames behind it.
        bool may_be_corrupted = faults.drop_chance > 0 || faults.duplicate_chance > 0;
        ASSERT_TRUE(may_be_corrupted || got.body == bodies[got.call]);
        ASSERT_EQ(got.body.size(), bodies[got.call].size());
        ASSERT_EQ(got.head, "head");
        if (got.body.size() < 4096) continue;
        ASSERT_GE(got.call + 1, last_in_order);
        last_in_order = got.call + 1;
      }
    }
  }
}

// ---- peers that lie ----

class LiarTest : public testing::Test {
 protected:
  // A greeted client that is not a pipe.
  LiarTest() : pair_(1, {}, Options(), SmallWindows()), script_(256 << 10) {}
  void SetUp() override { ASSERT_TRUE(pair_.ConnectRaw()); }

  // Says it, and expects the server to close for this reason.
  void ExpectCorrupt(const std::string& bytes, const std::string& cause) {
    pair_.client_task.AtHome([&] { pair_.raw_client.Say(bytes); });
    ASSERT_TRUE(pair_.RunUntil([&] { return pair_.server_receiver.closed > 0; }, 30 * kSecondNs)) << cause;
    EXPECT_EQ(pair_.server_receiver.why.code(), Code::kCorrupt);
    EXPECT_THAT(pair_.server_receiver.why.cause(), HasSubstr(cause));
    ExpectTyped(pair_.server_receiver.why);
    EXPECT_EQ(pair_.server_receiver.messages, 0u);
    ASSERT_TRUE(pair_.RunUntil([&] { return pair_.raw_client.closed > 0; }));
    EXPECT_THAT(pair_.raw_client.heard, HasSubstr(cause));  // the goodbye has the reason
    EXPECT_THAT(log_.lines, ElementsAre(HasSubstr(cause)));
  }

  LogLines log_;
  PipePair pair_;
  FrameScript script_;
};

TEST_F(LiarTest, AMessageBeyondTheCreditIsCorruptBeforeAnyoneMakesRoom) {
  int headers = 0;
  pair_.server_receiver.on_header = [&headers](const wire::FrameHeader&) {
    ++headers;
    return Status::Ok();
  };
  ExpectCorrupt(script_.Begin(FrameKind::kCall, 1, "", {uint64_t{1} << 39}), "came with credit for 65536");
  EXPECT_EQ(headers, 0);
}

TEST_F(LiarTest, AReturnOfMoreThanThereIsIsCorrupt) {
  ExpectCorrupt(script_.Control(FrameKind::kReturn, 65537), "gives back 65537 bytes of credit and has 65536");
}

TEST_F(LiarTest, CreditBeyondAllNumbersIsCorrupt) {
  ExpectCorrupt(Join({script_.Control(FrameKind::kCredit, wire::kWindowBytesMax - (256 << 10)),
                      script_.Control(FrameKind::kCredit, wire::kWindowBytesMax)}),
                "more than can be counted");
}

TEST_F(LiarTest, GarbageBehindTheGreetingIsCorrupt) { ExpectCorrupt(Payload(4096, 1), "frame magic"); }

TEST_F(LiarTest, AChunkWithoutAMessageIsCorrupt) {
  ExpectCorrupt(script_.Chunk(10) + Payload(10, 1), "a chunk without");
}

// The length is checked together with what it measures. The rest of it would be made of heartbeats.
TEST_F(LiarTest, AMetaThatNeverEndsIsCorruptInTime) {
  std::string mutated = script_.Begin(FrameKind::kCall, 1, "head", {});
  mutated[14] ^= 1;  // meta_bytes: 64 KiB more
  pair_.client_task.AtHome([&] { pair_.raw_client.Say(mutated); });
  for (int i = 0; i < 30 && pair_.server_receiver.closed == 0; ++i) {
    pair_.world.RunFor(kSecondNs);
    pair_.client_task.AtHome([&] { pair_.raw_client.Say(script_.Control(FrameKind::kPing, 1)); });
  }
  EXPECT_EQ(pair_.server_receiver.closed, 1);
  EXPECT_EQ(pair_.server_receiver.why.code(), Code::kCorrupt);
  EXPECT_THAT(pair_.server_receiver.why.cause(), HasSubstr("is never complete"));
  ExpectTyped(pair_.server_receiver.why);
}

TEST_F(LiarTest, WantsAndRecallsWithoutEndDoNoHarm) {
  Random random(1);
  std::string noise;
  for (int i = 0; i < 20000; ++i) {
    noise += random.Chance(0.5) ? script_.Control(FrameKind::kWant, random.Next() >> random.Between(1, 63))
                                : script_.Control(FrameKind::kRecall);
  }
  pair_.client_task.AtHome([&] { pair_.raw_client.Say(noise); });
  pair_.world.RunFor(kSecondNs);
  EXPECT_EQ(pair_.server_receiver.closed, 0);
  EXPECT_LT(pair_.raw_client.heard.size(), 20000u * wire::kHeaderBytes);
}

// It keeps what others wait for, and is alive otherwise.
TEST_F(LiarTest, ARecallThatIsIgnoredForLongEndsThePipe) {
  PipeContext& context = pair_.server_task.context;
  pair_.client_task.AtHome([&] { pair_.raw_client.Say(script_.Control(FrameKind::kWant, 1 << 20)); });
  ASSERT_TRUE(pair_.RunUntil([&] { return context.receive_budget().used_bytes() > 0; }));
  Budget::Share other(&context.receive_budget());
  ASSERT_FALSE(other.TryReserve(context.receive_budget().limit_bytes()));
  int64_t began_ns = pair_.world.clock()->NowNs();
  for (int second = 0; second < 100 && pair_.server_receiver.closed == 0; ++second) {
    pair_.client_task.AtHome([&] { pair_.raw_client.Say(script_.Control(FrameKind::kPing, 1)); });
    pair_.world.RunFor(kSecondNs);
  }
  EXPECT_EQ(pair_.server_receiver.closed, 1);
  EXPECT_EQ(pair_.server_receiver.why.code(), Code::kOverloaded);
  EXPECT_THAT(pair_.server_receiver.why.ToString(), HasSubstr("recalling credit"));
  int64_t took_ns = pair_.world.clock()->NowNs() - began_ns;
  EXPECT_GE(took_ns, 3 * Options().silent_ns_max);
  EXPECT_LE(took_ns, 3 * Options().silent_ns_max + 3 * kSecondNs);
  EXPECT_EQ(context.receive_budget().used_bytes(), 0u);
}

// A peer that pings without reading what it gets for it fills no memory of ours.
TEST_F(LiarTest, PingsWithoutListeningAreAnsweredByFew) {
  constexpr int kPings = 200000;
  std::string pings;
  for (int i = 0; i < kPings; ++i) pings += script_.Control(FrameKind::kPing, static_cast<uint64_t>(i));
  // The way back is full: nothing that we send arrives.
  LoopbackFaults clogged;
  clogged.clogged = true;
  clogged.send_buffer_bytes = 4096;
  pair_.world.SetFaultsBetween("server", "client", clogged);
  pair_.client_task.AtHome([&] { pair_.raw_client.Say(pings); });
  pair_.world.RunFor(kSecondNs);
  EXPECT_GE(pair_.server->stats().bytes_in.Read(), pings.size());
  size_t before = pair_.raw_client.heard.size();
  pair_.world.ClearFaultsBetween("server", "client");
  pair_.world.RunFor(kSecondNs);
  EXPECT_EQ(pair_.server_receiver.closed, 0);
  size_t answers = (pair_.raw_client.heard.size() - before) / wire::kHeaderBytes;
  EXPECT_GT(answers, 0u);
  EXPECT_LT(answers, 1000u);
}

TEST_F(LiarTest, AGoodbyeEndsItWithThePeersWords) {
  std::string goodbye =
      script_.Control(FrameKind::kGoodbye, 0, static_cast<uint32_t>(Code::kUnavailable), "going home");
  pair_.client_task.AtHome([&] { pair_.raw_client.Say(goodbye + Payload(1000, 1)); });  // nobody reads on
  ASSERT_TRUE(pair_.RunUntil([&] { return pair_.server_receiver.closed > 0; }));
  EXPECT_EQ(pair_.server_receiver.why.code(), Code::kUnavailable);
  EXPECT_THAT(pair_.server_receiver.why.cause(), HasSubstr("going home"));
  EXPECT_TRUE(log_.lines.empty());
}

// Connections times window is not a bound: when the windows' budget is spent, the next connection is refused, and
// both ends get the reason.
TEST(PipeFaults, WithoutAWindowThereIsNoPipe) {
  Options full;
  full.window_budget_bytes = 8 * 1024;
  for (bool at_server : {true, false}) {
    PipePair pair(1, {}, at_server ? Options() : full, at_server ? full : Options());
    pair.Dial();
    ASSERT_TRUE(pair.RunUntil([&] { return pair.client_receiver.closed > 0; }));
    EXPECT_EQ(pair.client_receiver.opened, 0);
    EXPECT_EQ(pair.client_receiver.why.code(), Code::kOverloaded);
    EXPECT_THAT(pair.client_receiver.why.ToString(), HasSubstr("window_budget_bytes"));
    EXPECT_FALSE(pair.client_receiver.why.next().empty());
    ASSERT_TRUE(pair.RunUntil([&] { return pair.server_receiver.closed > 0; }));
  }
}

TEST(PipeFaults, AForeignServerIsRefused) {
  for (const char* words : {"HTTP/1.1 400 Bad Request\r\n\r\n", "220 mail ready\r\n", "+", ""}) {
    SCOPED_TRACE(words);
    LogLines log;
    PipePair pair(1);
    pair.raw_server = std::make_unique<RawPeer>();
    pair.raw_server->Say(words);
    int64_t began_ns = pair.world.clock()->NowNs();
    pair.Dial();
    ASSERT_TRUE(pair.RunUntil([&] { return pair.client_receiver.closed > 0; }));
    EXPECT_LE(pair.world.clock()->NowNs() - began_ns, Options().hello_ns_max + 100 * kMillisecondNs);
    EXPECT_EQ(pair.client_receiver.opened, 0);
    EXPECT_EQ(pair.client_receiver.why.code(), *words == 0 ? Code::kTimeout : Code::kCorrupt);
    ExpectTyped(pair.client_receiver.why);
  }
}

}  // namespace
}  // namespace fusewire::pipe
