// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/task/acceptor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fusewire/base/random.h"
#include "fusewire/pipe/script_test.h"
#include "fusewire/task/acceptor_test.h"

namespace fusewire::task {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using wire::FrameKind;

TEST_F(AcceptorTest, GivesEachPeerAReceiver) {
  Dialler *one = DialAs("worker:0", 1), *other = DialAs("worker:1", 1);
  ASSERT_TRUE(Until([&] { return one->in() && other->in(); }));
  EXPECT_EQ(acceptor_->address().port, 5555);
  for (Dialler* dialler : {one, other})
    dialler->task->AtHome(
        [&] { dialler->pipe->Send(pipe::MakeMessage(FrameKind::kCall, 1, dialler == one ? "one" : "other")); });
  ASSERT_TRUE(Until([&] { return receivers_.size() == 2 && receivers_[0]->messages + receivers_[1]->messages == 2; }));
  EXPECT_EQ(receivers_[0]->got[0].head, "one");
  EXPECT_EQ(receivers_[1]->got[0].head, "other");
  AcceptorStats stats = acceptor_->Snapshot();
  EXPECT_EQ(stats.accepted, 2u);
  EXPECT_EQ(stats.greeted, 2u);
  EXPECT_EQ(stats.open, 2u);
  EXPECT_EQ(stats.turned_away, 0u);
}

TEST_F(AcceptorTest, AnOccupiedPortIsReported) {
  pipe::PipeContext context{pipe::Options()};
  Acceptor second(context, *pool_, *server_.transport);
  Status listens = second.Listen({"", 5555});
  EXPECT_EQ(listens.code(), Code::kInvalid);
  EXPECT_THAT(listens.ToString(),
              AllOf(HasSubstr("already in use"), HasSubstr(":5555"), HasSubstr("listen"), HasSubstr("another port")));
}

TEST_F(AcceptorTest, ListensBeforeItServesAndOnce) {
  Acceptor second(*context_, *pool_, *server_.transport);
  EXPECT_EQ(second.address().port, 0);
  ASSERT_TRUE(second.Listen({"", 5556}).ok());
  EXPECT_EQ(second.address().port, 5556);
  EXPECT_EQ(second.AddressOf(pipe::kTestService).port, 5556);
  Status again = second.Listen({"", 5557});
  EXPECT_EQ(again.code(), Code::kInvalid);
  EXPECT_THAT(again.ToString(), AllOf(HasSubstr("listens already, at :5556"), HasSubstr(":5557")));
  second.StopListening();
  EXPECT_TRUE(second.Listen({"", 5557}).ok());
  EXPECT_EQ(second.address().port, 5557);
}

TEST_F(AcceptorTest, TakesTheFirstPortThatIsFree) {
  Acceptor second(*context_, *pool_, *server_.transport);
  EXPECT_TRUE(second.Listen({"", 0}, {5555, 5557}).ok());
  EXPECT_EQ(second.address().port, 5556) << "5555 is taken";
  Acceptor third(*context_, *pool_, *server_.transport);
  Status none = third.Listen({"", 0}, {5555, 5556});
  EXPECT_THAT(none.ToString(), HasSubstr("none of the ports 5555 to 5556 could be opened, the last: "));
  EXPECT_EQ(third.address().port, 0);
  EXPECT_EQ(third.Listen({"", 0}, {5556, 5555}).code(), Code::kInvalid);
}

// ---- incarnations ----

TEST_F(AcceptorTest, ARestartedTaskClosesThePipesOfItsOldIncarnation) {
  Dialler *old_one = DialAs("worker:0", 1), *old_other = DialAs("worker:0", 1), *neighbour = DialAs("worker:1", 1);
  ASSERT_TRUE(Until([&] { return old_one->in() && old_other->in() && neighbour->in(); }));
  Dialler* restarted = DialAs("worker:0", 2);
  ASSERT_TRUE(Until([&] { return restarted->in() && old_one->gone() && old_other->gone(); }));
  EXPECT_THAT(old_one->receiver.why.cause(), HasSubstr("another incarnation of worker:0 has taken its place"));
  world_.RunFor(kSecondNs);
  EXPECT_TRUE(restarted->in());
  EXPECT_TRUE(neighbour->in());
  EXPECT_EQ(acceptor_->Snapshot().superseded, 2u);
  EXPECT_EQ(acceptor_->Snapshot().open, 2u);
}

// For instance, it was only stopped, and wakes up after its successor has come.
TEST_F(AcceptorTest, ASupersededIncarnationIsFencedOff) {
  ASSERT_TRUE(Until([dialler = DialAs("worker:0", 1)] { return dialler->in(); }));
  Dialler* heir = DialAs("worker:0", 2);
  ASSERT_TRUE(Until([&] { return heir->in(); }));
  for (int i = 0; i < 3; ++i) {
    Dialler* old = DialAs("worker:0", 1);
    ASSERT_TRUE(Until([&] { return old->gone(); }));
    EXPECT_THAT(old->receiver.why.cause(), HasSubstr("another incarnation"));
  }
  world_.RunFor(kSecondNs);
  EXPECT_TRUE(heir->in());
}

TEST_F(AcceptorTest, ToolsWithoutANameLiveTogether) {
  Dialler *one = DialAs("", 1), *other = DialAs("", 2);
  one->task->AtHome([] {});
  ASSERT_TRUE(Until([&] { return one->in() && other->in(); }));
  world_.RunFor(kSecondNs);
  EXPECT_TRUE(one->in());
  EXPECT_TRUE(other->in());
}

// ---- floods ----

TEST_F(AcceptorTest, AFloodOfSilentStrangersDoesNotKeepOthersOut) {
  pipe::Options options;
  options.greetings_max = 10;
  Open(options);
  pipe::LogLines log;
  for (int i = 0; i < 200; ++i) {
    DialRaw("bot-" + std::to_string(i % 3));
    world_.RunFor(200 * kMicrosecondNs);
    if (i % 50 != 49) continue;
    Dialler* dialler = DialAs("worker:" + std::to_string(i), 1);
    ASSERT_TRUE(Until([&] { return dialler->in(); })) << i;
  }
  AcceptorStats stats = acceptor_->Snapshot();
  EXPECT_EQ(stats.accepted, 204u);
  EXPECT_EQ(stats.open, 4u);
  EXPECT_GE(stats.turned_away, 180u);
  EXPECT_LE(stats.accepted - stats.turned_away - stats.open, 10u);  // those that are still being waited for
  world_.RunFor(6 * kSecondNs);
  EXPECT_EQ(acceptor_->Snapshot().turned_away, 200u);
  EXPECT_LE(log.lines.size(), 3u);  // one for each source
}

// As many as may greet at a time would hold the windows of all that are to come.
TEST_F(AcceptorTest, SilentStrangersHoldNoWindow) {
  pipe::Options options;
  options.window_budget_bytes = 10 * options.window_bytes;
  Open(options);
  pipe::LogLines log;
  for (int i = 0; i < 300; ++i) DialRaw("bot", i % 2 == 0 ? "" : "FUSEWIRE");
  world_.RunFor(10 * kMillisecondNs);
  EXPECT_EQ(acceptor_->Snapshot().turned_away, 0u);
  EXPECT_EQ(context_->windows().used_bytes(), 0u);
  Dialler* dialler = DialAs("worker:0", 1);
  ASSERT_TRUE(Until([&] { return dialler->in() || dialler->gone(); }));
  EXPECT_TRUE(dialler->in());
  EXPECT_GT(context_->windows().used_bytes(), 0u);
}

TEST_F(AcceptorTest, ASlowGreetingIsTurnedAwayInTime) {
  pipe::LogLines log;
  Dialler* slow = DialRaw("slow");
  int64_t began_ns = world_.clock()->NowNs();
  std::string words = "FUSEWIRE";
  for (size_t i = 0; !slow->gone() && i < 20; ++i) {
    slow->Say(words.substr(i % words.size(), 1));
    world_.RunFor(kSecondNs);
  }
  EXPECT_LE(world_.clock()->NowNs() - began_ns, 7 * kSecondNs);
  ASSERT_EQ(log.lines.size(), 1u);
  EXPECT_THAT(log.lines[0],
              AllOf(HasSubstr("turned slow:"), HasSubstr("timeout: no greeting"), HasSubstr("the peer's hello")));
}

TEST_F(AcceptorTest, ConnectionsHaveALimitThatComesBack) {
  pipe::Options options;
  options.connections_max = 5;
  Open(options);
  pipe::LogLines log;
  for (uint64_t round = 1; round <= 4; ++round) {
    std::vector<Dialler*> diallers;
    for (int i = 0; i < 9; ++i) diallers.push_back(DialAs("worker:" + std::to_string(i), round));
    ASSERT_TRUE(Until([&] {
      size_t settled = 0;
      for (Dialler* dialler : diallers) settled += dialler->in() || dialler->gone() ? 1 : 0;
      return settled == diallers.size();
    }));
    EXPECT_EQ(acceptor_->Snapshot().open, 5u) << "round " << round;
    diallers_.clear();
    ASSERT_TRUE(Until([&] { return acceptor_->Snapshot().open == 0; }));
  }
  EXPECT_THAT(log.lines[0], HasSubstr("connections_max is reached"));
}

// ---- strangers ----

TEST_F(AcceptorTest, StrangersLeaveOneLineForEachSourceAndInterval) {
  pipe::LogLines log;
  const std::string words[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                               std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(90, 1),
                               "SSH-2.0-OpenSSH_9.2\r\n",
                               "",
                               pipe::Payload(4000, 1),
                               pipe::Payload(3, 2)};
  for (int round = 0; round < 3; ++round) {
    for (const char* host : {"scanner", "prober"}) {
      for (const std::string& said : words) {
        Dialler* stranger = DialRaw(host, said);
        world_.RunFor(10 * kMillisecondNs);
        if (said.empty() || said.size() == 3) stranger->task->AtHome([&] { stranger->raw.Close(); });  // a port scan
        ASSERT_TRUE(Until([&] { return stranger->gone(); }));
        EXPECT_TRUE(stranger->raw.heard.empty());  // no answer to those who are not ours
      }
    }
    EXPECT_EQ(log.lines.size(), static_cast<size_t>(2 * (round + 1)));
    world_.RunFor(11 * kSecondNs);
  }
  EXPECT_THAT(log.lines[0], AllOf(HasSubstr("listener :5555 turned scanner:"), HasSubstr("looks like an HTTP request"),
                                  HasSubstr("(0 more")));
  EXPECT_THAT(log.lines[2], AllOf(HasSubstr("turned scanner:"), HasSubstr("(5 more in between)")));
  EXPECT_EQ(acceptor_->Snapshot().turned_away, 36u);
  EXPECT_EQ(acceptor_->Snapshot().open, 0u);
  Dialler* dialler = DialAs("worker:0", 1);
  EXPECT_TRUE(Until([&] { return dialler->in(); }));
}

TEST_F(AcceptorTest, APeerOfAnotherClusterLeavesALine) {
  pipe::LogLines log;
  pipe::Options options;
  options.cluster = "other";
  Open(options);
  Dialler* dialler = DialAs("worker:0", 1);
  ASSERT_TRUE(Until([&] { return dialler->gone(); }));
  EXPECT_THAT(dialler->receiver.why.ToString(), HasSubstr("the peer turned us away: cluster \"default\" is not ours"));
  ASSERT_EQ(log.lines.size(), 1u);
  EXPECT_THAT(log.lines[0], HasSubstr("listener :5555 turned client:"));
}

// Peers that greet and then violate the protocol do not fill the log either.
TEST_F(AcceptorTest, PeersThatGreetAndLieLeaveOneLineForEachInterval) {
  pipe::LogLines log;
  pipe::Options options;
  std::string hello = pipe::Handshake(pipe::Role::kDialer, options, pipe::kTestService, options.window_bytes).Begin();
  for (int i = 0; i < 50; ++i) {
    Dialler* liar = DialRaw("liar", hello + pipe::Payload(100, 1));
    ASSERT_TRUE(Until([&] { return liar->gone(); }));
  }
  EXPECT_LE(log.lines.size(), 1u);
}

// ---- the end ----

TEST_F(AcceptorTest, StopListeningKeepsOpenPipes) {
  Dialler* early = DialAs("worker:0", 1);
  ASSERT_TRUE(Until([&] { return early->in(); }));
  acceptor_->StopListening();
  Dialler* late = DialAs("worker:1", 1);
  ASSERT_TRUE(Until([&] { return late->gone(); }));
  EXPECT_THAT(late->refused.cause(), HasSubstr("refused"));
  world_.RunFor(30 * kSecondNs);
  EXPECT_TRUE(early->in());
}

TEST_F(AcceptorTest, SaysGoodbyeToAll) {
  Dialler *one = DialAs("worker:0", 1), *other = DialAs("worker:1", 1), *silent = DialRaw("silent");
  ASSERT_TRUE(Until([&] { return one->in() && other->in(); }));
  acceptor_->StopListening();
  acceptor_->CloseService(pipe::kTestService, Status::Unavailable("the server is shutting down"));
  ASSERT_TRUE(Until([&] { return one->gone() && other->gone() && silent->gone(); }));
  EXPECT_THAT(one->receiver.why.cause(), HasSubstr("the server is shutting down"));
  EXPECT_EQ(acceptor_->Snapshot().open, 0u);
}

TEST_F(AcceptorTest, MayGoAtAnyMoment) {
  pipe::LogLines log;
  for (int steps = 0; steps < 60; steps += 3) {
    SCOPED_TRACE(steps);
    Open(pipe::Options());
    DialAs("worker:0", 1);
    DialAs("worker:0", 2);
    DialAs("worker:1", 1);
    DialRaw("scanner", "GET / HTTP/1.1\r\n\r\n");
    for (int i = 0; i < steps; ++i) world_.Step();
    pipe::Outcomes outcomes;
    server_.AtHome([&] {
      for (pipe::RecordingReceiver* receiver : receivers_)
        receiver->pipe->Send(pipe::MakeMessage(FrameKind::kCall, 1, "x", "y"), outcomes.Next());
    });
    acceptor_.reset();
    outcomes.ExpectOnceEach();
    world_.RunFor(10 * kSecondNs);
    for (const auto& dialler : diallers_) EXPECT_TRUE(dialler->gone());
    diallers_.clear();
  }
}

TEST_F(AcceptorTest, LosesNoPlaceUnderRandomFaults) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    pipe::LogLines log;
    Open(FewPlaces());
    const auto come = [&](uint32_t i) {
      if (random.Chance(0.4)) DialAs("worker:" + std::to_string(random.Below(4)), random.Between(1, 3));
      if (random.Chance(0.3)) DialRaw("scanner", pipe::Payload(random.Below(40), i));
    };
    ExpectNoLostPlaces(&random, 0.02, come, [](uint64_t) { return pipe::kTestService; });
  }
}

}  // namespace
}  // namespace fusewire::task
