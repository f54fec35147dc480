// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Tests: peer/retelling.cc.
#include "fusewire/tf/peer/peer.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/log.h"
#include "fusewire/tf/bridge/threads_test.h"
#include "fusewire/tf/peer/grpc_test.h"
#include "fusewire/tf/peer/knowing_test.h"
#include "fusewire/tf/peer/world_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

class PeerTest : public testing::Test {
 protected:
  struct Routing {
    int ends = 0;
    TfStatus status;
    ChannelPtr channel;
  };

  PeerPtr MakePeer(bool is_grpc_only = false, const std::string& data_address = "", bool must_encrypt = false) {
    Peer::Options options;
    options.target = kPeerTask;
    options.address = "ps:2222";
    options.data_address = data_address;
    options.recovery_ns = recovery_ns_;
    options.must_encrypt = must_encrypt;
    options.known = known_;
    return std::make_shared<Peer>(is_grpc_only ? nullptr : world_.worker.get(), std::move(options));
  }
  void Route(const PeerPtr& peer, Routing* routing) {
    peer->Route(side_, [routing](const TfStatus& status, ChannelPtr channel) {
      ++routing->ends;
      routing->status = status;
      routing->channel = std::move(channel);
    });
  }
  static PortWords Words(uint16_t port = 5555) {
    PortWords words;
    words.port = port;
    words.incarnation = 1;
    words.fuses = true;
    return words;
  }
  // Of a task that can be restarted with what it had.
  static PortWords WordsOf(uint64_t state, uint64_t incarnation) {
    PortWords words = Words();
    words.state = state;
    words.incarnation = incarnation;
    return words;
  }
  // A peer that has been found, with one session, and is lost.
  PeerPtr MakeLostPeer(uint64_t state, uint64_t epoch = 0) {
    recovery_ns_ = 3 * kSecondNs;
    PeerPtr peer = MakePeer();
    tensorflow::CreateWorkerSessionRequest session;
    session.set_session_handle("one");
    peer->KeepSession(session, side_);
    Routing routing;
    Route(peer, &routing);
    PortWords words = WordsOf(state, kLost);
    words.epoch = epoch;
    grpc_.Answer(words);
    routing.channel->ReportStatus(Status::Unavailable("the pipe broke"));
    return peer;
  }

  // The lost task answers again, and says this of its data port.
  Routing Return(const PeerPtr& peer, const PortWords& words) {
    Routing routing;
    Route(peer, &routing);
    grpc_.AnswerStatus(TfStatus());
    grpc_.Answer(words);
    return routing;
  }

  // Another process has taken the task over.
  static Whereabout Taken(uint64_t state, uint64_t epoch) { return {"ps:0", "ps:5555", 1, state, epoch}; }
  // The one who has it is told of its session.
  void AnswerSession() {
    ASSERT_TRUE(world_.RunUntilWithThreads([this] { return !world_.asked.empty(); }));
    EXPECT_EQ(world_.asked[0].method, kCreateWorkerSession);
    std::string said;
    AppendTfStatus(TfStatus(), &said);
    world_.asked[0].reply.Send(Status::Ok(), ConstBytes(said));
  }

  static constexpr uint64_t kLost = 90;  // the incarnation of one that is gone
  DataWorld world_;
  const WhereaboutsPtr known_ = std::make_shared<Whereabouts>();
  int64_t recovery_ns_ = 0;
  // shared_ptr: as sessions hold it.
  std::shared_ptr<FakeCache> cache_ = std::make_shared<FakeCache>(kPeerTask);
  FakeWorker& grpc_ = cache_->worker();
  SidePtr side_ = std::make_shared<GrpcSide>(cache_, kPeerTask);
  PeerPtr peer_ = MakePeer();
};

TEST_F(PeerTest, IsAskedOnceForItsDataPort) {
  Routing routings[3];
  for (Routing& routing : routings) Route(peer_, &routing);
  EXPECT_EQ(grpc_.asked.size(), 1u);
  EXPECT_EQ(routings[0].ends, 0);
  EXPECT_EQ(peer_->channel(), nullptr);
  grpc_.Answer(Words());
  for (Routing& routing : routings) {
    EXPECT_EQ(routing.ends, 1);
    EXPECT_TRUE(routing.status.ok()) << routing.status;
    ASSERT_NE(routing.channel, nullptr);
    EXPECT_EQ(routing.channel, peer_->channel());
  }
  EXPECT_EQ(peer_->channel()->address().ToString(), "ps:5555");  // the host that the cluster names
  Routing later;
  Route(peer_, &later);
  EXPECT_EQ(later.channel, peer_->channel());
  EXPECT_TRUE(grpc_.asked.empty());
}

TEST_F(PeerTest, BehindNatIsReachedAtItsAdvertisedAddress) {
  for (const auto& [said, address] :
       {std::pair("gate.example.com", "gate.example.com:40000"), std::pair("2001:db8::1", "[2001:db8::1]:40000")}) {
    PeerPtr peer = MakePeer();
    Routing routing;
    Route(peer, &routing);
    PortWords words = Words(40000);
    words.advertised = said;
    grpc_.Answer(words);
    ASSERT_NE(routing.channel, nullptr);
    EXPECT_EQ(routing.channel->address().ToString(), address);
  }
}

TEST_F(PeerTest, ItsChannelLeadsToIt) {
  Routing routing;
  Route(peer_, &routing);
  grpc_.Answer(Words());
  routing.channel->AbortStep(3);
  ASSERT_TRUE(world_.AwaitAsked(1));
  EXPECT_EQ(world_.asked[0].method, kAbortStep);
  world_.asked[0].reply.Send(Status::Ok());
  world_.world.RunFor(kSecondNs);
}

TEST_F(PeerTest, WithoutThePluginTheWayIsGrpcUntilANewSession) {
  for (const TfStatus& said : {TfStatus(), TfStatus(absl::UnimplementedError("no such method"))}) {
    Routing routing, later, again;
    Route(peer_, &routing);
    ASSERT_EQ(grpc_.asked.size(), 1u);
    grpc_.Answer(said);
    EXPECT_EQ(routing.ends, 1);
    EXPECT_TRUE(routing.status.ok()) << routing.status;
    EXPECT_EQ(routing.channel, nullptr);
    Route(peer_, &later);
    EXPECT_EQ(later.ends, 1);
    EXPECT_TRUE(grpc_.asked.empty());
    peer_->AskAgain();
  }
}

TEST_F(PeerTest, WarnsOnceThatTheWayIsGrpc) {
  std::vector<std::string> lines;
  SetLogSink(
      [](LogLevel level, const char* text, void* context) {
        if (level == LogLevel::kWarn) static_cast<std::vector<std::string>*>(context)->emplace_back(text);
      },
      &lines);
  for (int i = 0; i < 2; ++i) {
    Routing routing;
    Route(peer_, &routing);
    grpc_.Answer(TfStatus());
    peer_->AskAgain();
  }
  PeerPtr disabled = MakePeer();
  Routing routing;
  Route(disabled, &routing);
  grpc_.Answer(Words(0));
  SetLogSink(nullptr, nullptr);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0],
              testing::HasSubstr("(ps:2222) has no Fusewire: it is served over stock gRPC; next: install it"));
  EXPECT_THAT(lines[1], testing::HasSubstr("has loaded Fusewire, but its server speaks grpc"));
}

TEST_F(PeerTest, WithoutADataPortNothingGoesToItIfAllMustBeEncrypted) {
  PeerPtr peer = MakePeer(/*is_grpc_only=*/false, "", /*must_encrypt=*/true);
  for (const bool has_plugin : {false, true}) {
    Routing routing;
    Route(peer, &routing);
    ASSERT_EQ(grpc_.asked.size(), 1u);  // each time: it may have been restarted
    if (has_plugin) {
      grpc_.Answer(Words(0));
    } else {
      grpc_.Answer(TfStatus());
    }
    EXPECT_TRUE(absl::IsFailedPrecondition(routing.status)) << routing.status;
    EXPECT_EQ(routing.channel, nullptr);
  }
  Routing routing;
  Route(peer, &routing);
  grpc_.Answer(Words());
  EXPECT_NE(routing.channel, nullptr);
}

TEST_F(PeerTest, WithoutAPortItSpeaksGrpcOnlyAndFuses) {
  Routing routing;
  Route(peer_, &routing);
  EXPECT_FALSE(peer_->Fuses(side_));
  grpc_.Answer(Words(0));
  EXPECT_EQ(routing.ends, 1);
  EXPECT_EQ(routing.channel, nullptr);
  EXPECT_TRUE(peer_->Fuses(side_));
  peer_->CannotFuse();
  EXPECT_FALSE(peer_->Fuses(side_));
}

TEST_F(PeerTest, AnUnreachableTaskIsAskedAgainByTheNextCall) {
  Routing first, second, third;
  Route(peer_, &first);
  Route(peer_, &second);
  grpc_.Answer(TfStatus(absl::UnavailableError("connection refused")));
  for (Routing* routing : {&first, &second}) {
    EXPECT_EQ(routing->ends, 1);
    EXPECT_TRUE(absl::IsUnavailable(routing->status)) << routing->status;
    EXPECT_EQ(routing->channel, nullptr);
  }
  Route(peer_, &third);
  ASSERT_EQ(grpc_.asked.size(), 1u);
  grpc_.Answer(Words());
  EXPECT_NE(third.channel, nullptr);
}

TEST_F(PeerTest, AChannelThatWasLostIsReplacedAfterAnotherQuestion) {
  Routing first, second;
  Route(peer_, &first);
  grpc_.Answer(Words());
  EXPECT_FALSE(peer_->is_lost());
  first.channel->ReportStatus(Status::Unavailable("the pipe broke"));
  EXPECT_TRUE(peer_->is_lost());
  EXPECT_EQ(peer_->channel(), nullptr);
  Route(peer_, &second);
  EXPECT_EQ(second.ends, 0);
  EXPECT_TRUE(peer_->is_lost());  // until it answers
  grpc_.Answer(Words());
  EXPECT_FALSE(peer_->is_lost());
  ASSERT_NE(second.channel, nullptr);
  EXPECT_NE(second.channel, first.channel);
}

TEST_F(PeerTest, AServerThatIsBackWithItsStateIsToldItsSessionsAgain) {
  PeerPtr peer = MakeLostPeer(/*state=*/7);
  Routing first, second;
  Route(peer, &first);
  Route(peer, &second);
  ASSERT_EQ(grpc_.awaiting.size(), 1u);
  EXPECT_TRUE(grpc_.asked.empty());
  EXPECT_FALSE(grpc_.awaiting[0].fail_fast);
  EXPECT_LE(grpc_.awaiting[0].limit_ms, 3000);
  EXPECT_GT(grpc_.awaiting[0].limit_ms, 2000);
  grpc_.AnswerStatus(TfStatus());
  EXPECT_EQ(first.ends, 0);
  grpc_.Answer(WordsOf(7, 2));
  EXPECT_EQ(grpc_.sessions, std::vector<std::string>{"one"});
  for (Routing* routing : {&first, &second}) {
    EXPECT_EQ(routing->ends, 1);
    ASSERT_NE(routing->channel, nullptr);
    EXPECT_EQ(routing->channel->options().state, 7u);
  }
  EXPECT_FALSE(peer->is_lost());
}

TEST_F(PeerTest, AServerThatIsBackWithoutItsStateIsToldNothing) {
  PeerPtr peer = MakeLostPeer(7);
  const Routing routing = Return(peer, WordsOf(8, 2));
  EXPECT_TRUE(grpc_.sessions.empty());
  ASSERT_NE(routing.channel, nullptr);
  EXPECT_EQ(routing.channel->options().state, 8u);
}

TEST_F(PeerTest, TheSameProcessIsToldNothingAgain) {
  PeerPtr peer = MakeLostPeer(7);
  const Routing routing = Return(peer, WordsOf(7, kLost));
  EXPECT_TRUE(grpc_.sessions.empty());
  EXPECT_NE(routing.channel, nullptr);
}

TEST_F(PeerTest, ATaskThatCannotReturnIsNotWaitedFor) {
  PeerPtr peer = MakeLostPeer(/*state=*/0);
  Routing routing;
  Route(peer, &routing);
  EXPECT_TRUE(grpc_.awaiting.empty());
  grpc_.Answer(TfStatus(absl::UnavailableError("connection refused")));
  EXPECT_TRUE(absl::IsUnavailable(routing.status)) << routing.status;
}

TEST_F(PeerTest, TheWaitForItsReturnHasAnEnd) {
  PeerPtr peer = MakeLostPeer(7);
  Routing first, second;
  Route(peer, &first);
  grpc_.AnswerStatus(TfStatus(absl::DeadlineExceededError("3 s")));
  grpc_.Answer(TfStatus(absl::UnavailableError("connection refused")));
  EXPECT_EQ(first.ends, 1);
  EXPECT_TRUE(absl::IsUnavailable(first.status)) << first.status;
  // The next one does not wait.
  Route(peer, &second);
  EXPECT_TRUE(grpc_.awaiting.empty());
  grpc_.Answer(WordsOf(7, 2));
  EXPECT_EQ(grpc_.sessions.size(), 1u);
  EXPECT_NE(second.channel, nullptr);
}

TEST_F(PeerTest, ALateAnswerOfTheOldOneIsNotTaken) {
  PeerPtr peer = MakeLostPeer(7, 1);
  Routing routing;
  Route(peer, &routing);
  grpc_.AnswerStatus(TfStatus());
  known_->Learn(Taken(7, 2));
  PortWords old = WordsOf(7, kLost);
  old.epoch = 1;
  grpc_.Answer(old);
  AnswerSession();
  ASSERT_TRUE(world_.RunUntilWithThreads([&routing] { return routing.ends > 0; }));
  EXPECT_EQ(peer->epoch(), 2u);
  ASSERT_NE(routing.channel, nullptr);
  EXPECT_EQ(routing.channel->options().incarnation, 1u);
}

TEST_F(PeerTest, AfterALaterOwnerItNeverGoesBackToAnEarlierOne) {
  known_->Learn(Taken(7, 3));
  Routing routing;
  Route(peer_, &routing);
  EXPECT_TRUE(grpc_.asked.empty());
  ASSERT_NE(routing.channel, nullptr);
  EXPECT_EQ(routing.channel->options().epoch, 3u);
  routing.channel->ReportStatus(Status::Unavailable("the pipe broke"));
  Routing again;
  Route(peer_, &again);
  PortWords old = WordsOf(7, kLost);
  old.epoch = 2;
  grpc_.Answer(old);
  EXPECT_EQ(again.channel, nullptr);
  EXPECT_TRUE(absl::IsUnavailable(again.status)) << again.status;
}

TEST_F(PeerTest, WhatATaskSaysOfItselfOthersAreTold) {
  Routing routing;
  Route(peer_, &routing);
  PortWords words = WordsOf(7, 1);
  words.epoch = 4;
  grpc_.Answer(words);
  Whereabout found;
  ASSERT_TRUE(known_->Find("ps:0", &found));
  EXPECT_EQ(found.epoch, 4u);
  EXPECT_EQ(found.address, "ps:5555");
}

TEST_F(PeerTest, WhereASessionCannotBeToldAgainItIsAskedOnceMore) {
  PeerPtr peer = MakeLostPeer(7);
  Routing first, second;
  Route(peer, &first);
  grpc_.AnswerStatus(TfStatus());
  grpc_.says = absl::UnavailableError("it died again");
  grpc_.Answer(WordsOf(7, 2));
  EXPECT_TRUE(absl::IsUnavailable(first.status)) << first.status;
  EXPECT_EQ(first.channel, nullptr);
  grpc_.says = TfStatus();
  Route(peer, &second);
  grpc_.Answer(WordsOf(7, 3));
  EXPECT_EQ(grpc_.sessions.size(), 2u);
  EXPECT_NE(second.channel, nullptr);
}

TEST_F(PeerTest, ASessionThatHasEndedIsNotToldAgain) {
  PeerPtr peer = MakeLostPeer(7);
  peer->DropSession("one");
  const Routing routing = Return(peer, WordsOf(7, 2));
  EXPECT_TRUE(grpc_.sessions.empty());
  EXPECT_NE(routing.channel, nullptr);
}

TEST_F(PeerTest, ItsGraphsAreToldAgainAndGetTheirNewNames) {
  PeerPtr peer = MakeLostPeer(7);
  Retelling& retelling = peer->retelling();
  auto now = [&retelling](const std::string& handle) {
    std::string renamed = handle;
    const bool is_renamed = retelling.IsRenamed("one", handle, &renamed);
    EXPECT_EQ(is_renamed, renamed != handle);
    return renamed;
  };
  tensorflow::RegisterGraphRequest graph;
  graph.set_session_handle("one");
  EXPECT_EQ(retelling.KeepGraph(graph, "5"), "5");
  graph.set_session_handle("gone");
  retelling.KeepGraph(graph, "6");
  peer->DropSession("gone");
  EXPECT_EQ(now("5"), "5");
  const Routing routing = Return(peer, WordsOf(7, 2));
  ASSERT_EQ(grpc_.graphs.size(), 1u);
  EXPECT_EQ(grpc_.graphs[0].session_handle(), "one");
  EXPECT_EQ(now("5"), "1");
  // The task counts from 1 again, and comes to a name that the master knows.
  graph.set_session_handle("one");
  const std::string second = retelling.KeepGraph(graph, "5");
  EXPECT_NE(second, "5");
  EXPECT_EQ(now(second), "5");
  EXPECT_EQ(now("5"), "1");
  retelling.DropGraph("one", "5");
  EXPECT_EQ(now("5"), "5");
}

TEST_F(PeerTest, APartialRunIsWithOneProcessUntilItEnds) {
  PeerPtr peer = MakePeer();
  Retelling& retelling = peer->retelling();
  tensorflow::RunGraphRequest call, other;
  call.set_session_handle("one");
  call.set_step_id(5);
  other.set_session_handle("two");
  other.set_step_id(6);
  EXPECT_TRUE(retelling.KeepPartialRun(call, 100));
  EXPECT_TRUE(retelling.KeepPartialRun(other, 101));
  EXPECT_TRUE(retelling.KeepPartialRun(call, 100));
  EXPECT_FALSE(retelling.KeepPartialRun(call, 101));
  retelling.DropPartialRun(5);
  EXPECT_TRUE(retelling.KeepPartialRun(call, 101));
  // Its session has ended, and it will not.
  peer->DropSession("one");
  EXPECT_TRUE(retelling.KeepPartialRun(call, 102));
  EXPECT_FALSE(retelling.KeepPartialRun(other, 102));
}

TEST_F(PeerTest, AMapSaysWhereItsDataPortIsAndTheTaskWhichIncarnation) {
  PeerPtr mapped = MakePeer(false, "ps:5555");
  Routing routing, again;
  Route(mapped, &routing);
  PortWords words = Words(7777);
  words.incarnation = world_.incarnation + 1;  // another process listens where the map says
  grpc_.Answer(words);
  ASSERT_NE(routing.channel, nullptr);
  EXPECT_EQ(routing.channel->address().ToString(), "ps:5555");
  routing.channel->AbortStep(3);
  ASSERT_TRUE(world_.RunUntil([&] { return !routing.channel->alive(); }));
  EXPECT_TRUE(world_.asked.empty());
  Route(mapped, &again);
  words.incarnation = world_.incarnation;
  grpc_.Answer(words);
  ASSERT_NE(again.channel, nullptr);
  again.channel->AbortStep(3);
  ASSERT_TRUE(world_.AwaitAsked(1));
  world_.asked[0].reply.Send(Status::Ok());
  world_.world.RunFor(kSecondNs);
}

TEST_F(PeerTest, OfATaskThatUsesGrpcAloneIsOnlyAskedWhetherItFuses) {
  PeerPtr plain = MakePeer(/*is_grpc_only=*/true);
  Routing routing;
  Route(plain, &routing);
  EXPECT_EQ(routing.ends, 1);
  EXPECT_EQ(routing.channel, nullptr);
  EXPECT_TRUE(grpc_.asked.empty());
  EXPECT_FALSE(plain->Fuses(side_));  // does not wait for the answer
  EXPECT_FALSE(plain->Fuses(side_));
  ASSERT_EQ(grpc_.asked.size(), 1u);
  grpc_.Answer(Words());
  EXPECT_TRUE(plain->Fuses(side_));
}

TEST_F(PeerTest, ACallbackMayRouteAgain) {
  Routing inner;
  int ends = 0;
  peer_->Route(side_, [&](const TfStatus&, const ChannelPtr& channel) {
    ++ends;
    Route(peer_, &inner);
    EXPECT_EQ(inner.channel, channel);
  });
  grpc_.Answer(Words());
  EXPECT_EQ(ends, 1);
  EXPECT_EQ(inner.ends, 1);
}

TEST_F(PeerTest, AnAnswerMayComeAfterAllInterestInIt) {
  Routing routing;
  Route(peer_, &routing);
  side_.reset();
  peer_.reset();
  EXPECT_EQ(cache_->lent(), 1);  // the question holds it
  grpc_.Answer(Words());
  EXPECT_NE(routing.channel, nullptr);
  EXPECT_EQ(cache_->lent(), 0);
}

// A task that another process has taken over: a server on this machine, as a scout looks from a thread of its own.
class SuccessorTest : public testing::Test {
 protected:
  SuccessorTest() {
    Peer::Options options;
    options.target = kPeerTask;
    options.address = "127.0.0.1:2222";
    options.recovery_ns = 30 * kSecondNs;
    options.known = known_;
    options.other = [](uint64_t) { return ChannelPtr(); };  // what others say comes from the test
    peer_ = std::make_shared<Peer>(&server_.ours(), std::move(options));
    tensorflow::CreateWorkerSessionRequest session;
    session.set_session_handle("one");
    peer_->KeepSession(session, side_);
    peer_->Route(side_, [this](const TfStatus&, ChannelPtr channel) { lost_ = std::move(channel); });
    grpc_.Answer(Words(/*incarnation=*/90, /*epoch=*/1));
    lost_->ReportStatus(Status::Unavailable("the pipe broke"));
  }
  static rpc::Method AnswerSessions(std::atomic<int>* sessions) {
    return {kCreateWorkerSession, "sessions",
            [sessions](const rpc::Request&, rpc::Reply reply) {
              ++*sessions;
              std::string said;
              AppendTfStatus(TfStatus(), &said);
              reply.Send(Status::Ok(), ConstBytes(said));
            },
            nullptr};
  }
  static std::vector<rpc::Method> Methods(std::atomic<int>* sessions) {
    std::vector<rpc::Method> methods;
    methods.push_back(AnswerSessions(sessions));
    return methods;
  }
  PortWords Words(uint64_t incarnation, uint64_t epoch) const {
    PortWords words;
    words.port = server_.address().port;
    words.incarnation = incarnation;
    words.state = 7;
    words.epoch = epoch;
    return words;
  }
  Whereabout Taken(const std::string& address, uint64_t epoch) const {
    return {"ps:0", address, KnowingServer::kIncarnation, 7, epoch};
  }
  struct Routing {
    TfStatus status;
    ChannelPtr channel;
    Ends end;
  };
  void Route(Routing* routing) {
    peer_->Route(side_, [routing](const TfStatus& status, ChannelPtr channel) {
      routing->status = status;
      routing->channel = std::move(channel);
      routing->end.Add();
    });
  }

  // Calls over gRPC that end later, and change nothing.
  void AnswerAll() {
    while (!grpc_.awaiting.empty()) grpc_.AnswerStatus(TfStatus());
  }

  std::atomic<int> sessions_{0};
  KnowingServer server_{Methods(&sessions_)};
  const WhereaboutsPtr known_ = std::make_shared<Whereabouts>();
  // shared_ptr: as sessions hold it.
  std::shared_ptr<FakeCache> cache_ = std::make_shared<FakeCache>(kPeerTask);
  FakeWorker& grpc_ = cache_->worker();
  SidePtr side_ = std::make_shared<GrpcSide>(cache_, kPeerTask);
  PeerPtr peer_;
  ChannelPtr lost_;
};

TEST_F(SuccessorTest, OneThatOthersHaveFoundIsToldOverTheWire) {
  Routing routing;
  Route(&routing);
  ASSERT_EQ(grpc_.awaiting.size(), 1u);
  known_->Learn(Taken(server_.address().ToString(), 2));
  ASSERT_TRUE(routing.end.Await(1));
  ASSERT_NE(routing.channel, nullptr) << routing.status;
  EXPECT_EQ(routing.channel->address().ToString(), server_.address().ToString());
  EXPECT_EQ(peer_->epoch(), 2u);
  EXPECT_TRUE(lost_->losses().is_superseded);
  EXPECT_FALSE(routing.channel->losses().is_superseded);
  EXPECT_EQ(sessions_, 1);
  EXPECT_TRUE(grpc_.sessions.empty());
  grpc_.AnswerStatus(TfStatus());  // the call over gRPC ends later, and changes nothing
  EXPECT_TRUE(grpc_.asked.empty());
}

// A server that keeps values for another one has no session there: nobody looks for the task until the next call.
TEST_F(SuccessorTest, WithoutASessionCallsUnderWayEndOnceTheTaskIsElsewhere) {
  peer_->DropSession("one");
  lost_->options().on_lost();
  EXPECT_FALSE(lost_->losses().is_superseded);
  known_->Learn(Taken(server_.address().ToString(), 2));
  lost_->options().on_lost();
  EXPECT_TRUE(lost_->losses().is_superseded);
  EXPECT_EQ(lost_->client().Ask(kGetStatus, ConstBytes(), Buffers(), 10 * kSecondNs).status.cause(),
            "another process has its task");
  EXPECT_TRUE(grpc_.awaiting.empty());
}

TEST_F(SuccessorTest, ASuccessorThatIsNotWhereOthersSaidIsSearchedFor) {
  Routing routing;
  known_->Learn(Taken("127.0.0.1:1", 2));  // nobody listens there
  Route(&routing);
  EXPECT_EQ(sessions_, 0);
  known_->Learn(Taken(server_.address().ToString(), 3));
  ASSERT_TRUE(routing.end.Await(1));
  ASSERT_NE(routing.channel, nullptr) << routing.status;
  EXPECT_EQ(peer_->epoch(), 3u);
  EXPECT_EQ(sessions_, 1);
  AnswerAll();
}

// Its connection was reset: it is still there, and so is its session.
TEST_F(SuccessorTest, ASuccessorWhoseConnectionIsLostIsFoundAgain) {
  Routing first, second;
  known_->Learn(Taken(server_.address().ToString(), 2));
  server_.known->Learn(Taken(server_.address().ToString(), 2));
  Route(&first);
  ASSERT_TRUE(first.end.Await(1));
  ASSERT_NE(first.channel, nullptr) << first.status;
  first.channel->ReportStatus(Status::Unavailable("it was reset"));
  EXPECT_FALSE(first.channel->alive());
  Route(&second);
  ASSERT_TRUE(second.end.Await(1));
  ASSERT_NE(second.channel, nullptr) << second.status;
  EXPECT_NE(second.channel, first.channel);
  EXPECT_EQ(second.channel->address().ToString(), server_.address().ToString());
  EXPECT_EQ(sessions_, 1);
  AnswerAll();
}

class SearchTest : public testing::Test {
 protected:
  SearchPtr Make() {
    return std::make_shared<Search>([this](const TfStatus& status, const ChannelPtr& channel) {
      status_ = status;
      EXPECT_EQ(channel, nullptr);
      ends_.Add();
    });
  }

  Ends ends_;
  TfStatus status_;
  Routed answer_;  // of the task that is asked
};

TEST_F(SearchTest, EndsWithTheAnswer) {
  SearchPtr at_once = Make();
  at_once->Begin([](const Routed& routed) { routed(absl::UnavailableError("refused"), nullptr); });
  EXPECT_EQ(ends_.count(), 1);
  EXPECT_TRUE(absl::IsUnavailable(status_)) << status_;
  SearchPtr later = Make();
  later->Begin([this](Routed routed) { answer_ = std::move(routed); });
  EXPECT_EQ(ends_.count(), 1);
  answer_(TfStatus(), nullptr);
  EXPECT_EQ(ends_.count(), 2);
  EXPECT_TRUE(status_.ok()) << status_;
  EXPECT_TRUE(later->status().ok());
}

TEST_F(SearchTest, GivenUpBeforeItBeginsSendsNothing) {
  SearchPtr search = Make();
  search->GiveUp(absl::CancelledError("the step was cancelled"));
  EXPECT_EQ(ends_.count(), 0);  // Begin ends it
  search->Begin([](const Routed&) { ADD_FAILURE() << "asked"; });
  EXPECT_EQ(ends_.count(), 1);
  EXPECT_TRUE(absl::IsCancelled(status_)) << status_;
}

TEST_F(SearchTest, GivenUpMeanwhileEndsOnceAndDropsTheAnswer) {
  SearchPtr search = Make();
  search->Begin([this](Routed routed) { answer_ = std::move(routed); });
  search->GiveUp(absl::AbortedError("the first reason"));
  search->GiveUp(absl::InternalError("another one"));
  ASSERT_TRUE(ends_.Await(1));
  EXPECT_TRUE(absl::IsAborted(status_)) << status_;
  EXPECT_TRUE(absl::IsAborted(search->status()));
  answer_(TfStatus(), nullptr);
  EXPECT_EQ(ends_.count(), 1);
}

TEST_F(SearchTest, ThatHasEndedCannotBeGivenUp) {
  SearchPtr search = Make();
  search->Begin([](const Routed& routed) { routed(TfStatus(), nullptr); });
  search->GiveUp(absl::AbortedError("too late"));
  SearchPtr other = Make();  // what was put off by the first has been done once the second has ended
  other->Begin([this](Routed routed) { answer_ = std::move(routed); });
  other->GiveUp(absl::AbortedError("in time"));
  ASSERT_TRUE(ends_.Await(2));
  EXPECT_EQ(ends_.count(), 2);
}

}  // namespace
}  // namespace fusewire::tf
