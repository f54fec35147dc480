// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One listener, two services: a peer of the other one is handed over to it.
#include "fusewire/task/service_listener.h"

#include <gmock/gmock.h>

#include <memory>
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

constexpr uint16_t kOther = 2;

class ServiceListenerTest : public AcceptorTest {
 protected:
  ServiceListenerTest() { Serve(pipe::Options()); }
  ~ServiceListenerTest() override {
    diallers_.clear();
    acceptor_.reset();
  }
  void Serve(pipe::Options options) {
    options.name = "/job:ps";
    other_receivers_.clear();
    other_shared_ = std::make_unique<pipe::PipeContext>(options);
    Status served = acceptor_->Serve(kOther, *other_shared_, {server_.home},
                                     [this](pipe::Pipe& pipe) { return NewReceiver(&other_receivers_, &pipe); });
    ASSERT_TRUE(served.ok()) << served.ToString();
  }
  bool In(Dialler* dialler) {
    return Until([dialler] { return dialler->in() || dialler->gone(); }) && dialler->in();
  }
  bool Gone(Dialler* dialler) {
    return Until([dialler] { return dialler->gone(); });
  }

  std::unique_ptr<pipe::PipeContext> other_shared_;
  std::vector<pipe::RecordingReceiver*> other_receivers_;
};

TEST_F(ServiceListenerTest, EachServiceGetsItsOwnPeers) {
  Dialler *one = DialAs("worker:0", 1), *other = DialAs("/job:worker", 1, kOther);
  ASSERT_TRUE(In(one) && In(other));
  EXPECT_EQ(one->receiver.peer.name, "ps:0");
  EXPECT_EQ(other->receiver.peer.name, "/job:ps");
  for (Dialler* dialler : {one, other})
    dialler->task->AtHome(
        [&] { dialler->pipe->Send(pipe::MakeMessage(FrameKind::kCall, 1, dialler == one ? "one" : "other")); });
  ASSERT_TRUE(Until([&] {
    return receivers_.size() == 1 && receivers_[0]->messages == 1 && other_receivers_.size() == 1 &&
           other_receivers_[0]->messages == 1;
  }));
  EXPECT_EQ(receivers_[0]->got[0].head, "one");
  EXPECT_EQ(other_receivers_[0]->got[0].head, "other");
  server_.AtHome([&] { other_receivers_[0]->pipe->Send(pipe::MakeMessage(FrameKind::kMessage, 2, "back")); });
  ASSERT_TRUE(Until([&] { return other->receiver.messages == 1; }));
  const AcceptorStats stats = acceptor_->Snapshot();
  EXPECT_EQ(stats.accepted, 2u);
  EXPECT_EQ(stats.greeted, 2u);
  EXPECT_EQ(stats.open, 2u);
  EXPECT_EQ(stats.turned_away, 0u);
}

TEST_F(ServiceListenerTest, AnUnknownServiceIsRefusedWithAReason) {
  pipe::LogLines log;
  Dialler* lost = DialAs("worker:0", 1, 7);
  ASSERT_TRUE(Gone(lost));
  EXPECT_EQ(lost->receiver.why.code(), Code::kRefused);
  EXPECT_THAT(lost->receiver.why.cause(), HasSubstr("service 7 is not offered here"));
  ASSERT_EQ(log.lines.size(), 1u);
  EXPECT_THAT(log.lines[0], AllOf(HasSubstr("turned"), HasSubstr("service 7 is not offered here")));
  acceptor_->StopServing(kOther);
  Dialler* late = DialAs("worker:1", 1, kOther);
  ASSERT_TRUE(Gone(late));
  EXPECT_EQ(late->receiver.why.code(), Code::kUnavailable) << "it may come back";
  EXPECT_THAT(late->receiver.why.cause(), HasSubstr("service 2 (endpoints) is not offered any more"));
}

TEST_F(ServiceListenerTest, AServiceIsServedOnce) {
  pipe::PipeContext context{pipe::Options()};
  for (uint16_t service : {pipe::kTestService, kOther}) {
    Status again = acceptor_->Serve(service, context, {server_.home}, [](pipe::Pipe&) { return nullptr; });
    EXPECT_EQ(again.code(), Code::kInvalid);
    EXPECT_THAT(again.cause(), HasSubstr("is served here already"));
  }
}

// The number of the service that reads hellos for all.
TEST_F(ServiceListenerTest, AnEmptyServiceNameIsRefused) {
  pipe::LogLines log;
  Dialler* lost = DialAs("worker:0", 1, pipe::kNoService);
  ASSERT_TRUE(Gone(lost));
  EXPECT_EQ(lost->receiver.opened, 0);
  EXPECT_EQ(lost->receiver.why.code(), Code::kRefused);
  EXPECT_THAT(lost->receiver.why.cause(), HasSubstr("service 0 is not offered here"));
}

TEST_F(ServiceListenerTest, TheFirstServiceMayGoAndTheOtherStays) {
  Dialler *one = DialAs("worker:0", 1), *other = DialAs("/job:worker", 1, kOther);
  ASSERT_TRUE(In(one) && In(other));
  EXPECT_EQ(acceptor_->services(), 2u);
  acceptor_->CloseService(pipe::kTestService, Status::Unavailable("the server is shutting down"));
  ASSERT_TRUE(Gone(one));
  EXPECT_THAT(one->receiver.why.cause(), HasSubstr("the server is shutting down"));
  acceptor_->Withdraw(pipe::kTestService);
  EXPECT_EQ(acceptor_->services(), 1u);
  EXPECT_TRUE(other->in());
  EXPECT_TRUE(In(DialAs("/job:worker/1", 1, kOther)));
  pipe::LogLines log;
  Dialler* late = DialAs("worker:1", 1);
  ASSERT_TRUE(Gone(late));
  EXPECT_EQ(late->receiver.why.code(), Code::kUnavailable);
  EXPECT_THAT(late->receiver.why.cause(), HasSubstr("is not offered any more"));
}

// If its service ends at any moment of a greeting, the peer's connection is closed, and the next peer is accepted.
TEST_F(ServiceListenerTest, AServiceClosesWhileAPeerGreets) {
  pipe::Options options;
  options.secret = "open sesame open";  // a greeting of three steps
  for (int steps = 0; steps < 40; ++steps) {
    SCOPED_TRACE(steps);
    pipe::LogLines log;
    acceptor_->Withdraw(kOther);
    Serve(options);
    Dialler* dialler = DialAs("one", 1, kOther, "open sesame open");
    for (int i = 0; i < steps; ++i) world_.Step();
    acceptor_->StopServing(kOther);
    acceptor_->CloseService(kOther, Status::Unavailable("the endpoint was closed"));
    ASSERT_TRUE(Gone(dialler));
    EXPECT_EQ(dialler->receiver.why.code(), Code::kUnavailable) << dialler->receiver.why.ToString();
    diallers_.clear();
    ASSERT_TRUE(Until([&] { return acceptor_->Snapshot().open == 0; }));
  }
}

TEST_F(ServiceListenerTest, ASecretGuardsTheOtherServiceToo) {
  pipe::Options options;
  options.secret = "open sesame open";
  acceptor_->Withdraw(kOther);
  Serve(options);
  pipe::LogLines log;
  Dialler *knows = DialAs("one", 1, kOther, "open sesame open"),
          *guesses = DialAs("two", 1, kOther, "open barley, open"), *has_none = DialAs("three", 1, kOther),
          *elsewhere = DialAs("four", 1);
  EXPECT_TRUE(In(knows));
  EXPECT_TRUE(In(elsewhere));
  ASSERT_TRUE(Gone(guesses) && Gone(has_none));
  EXPECT_EQ(has_none->receiver.why.code(), Code::kRefused);
  EXPECT_THAT(has_none->receiver.why.cause(), HasSubstr("secret"));
  EXPECT_EQ(other_receivers_.size(), 1u);
}

// They send a hello for the other service and no proof: there is one time limit for a greeting, in any service.
TEST_F(ServiceListenerTest, SilenceAfterTheHelloIsTurnedAwayInTime) {
  pipe::Options options;
  options.secret = "open sesame open";
  acceptor_->Withdraw(kOther);
  Serve(options);
  pipe::LogLines log;
  const std::string hello = pipe::Handshake(pipe::Role::kDialer, options, kOther, options.window_bytes).Begin();
  Dialler* silent = DialRaw("silent");
  const int64_t began_ns = world_.clock()->NowNs();
  world_.RunFor(4 * kSecondNs);
  silent->Say(hello);
  ASSERT_TRUE(Gone(silent));
  EXPECT_LE(world_.clock()->NowNs() - began_ns, options.hello_ns_max + kSecondNs + 100 * kMillisecondNs);
  ASSERT_EQ(log.lines.size(), 1u);
  EXPECT_THAT(log.lines[0], AllOf(HasSubstr("no greeting"), HasSubstr("the peer's proof")));
}

TEST_F(ServiceListenerTest, AFloodThatProvesNothingDoesNotKeepOthersOut) {
  pipe::Options options;
  options.secret = "open sesame open";
  options.greetings_max = 10;
  acceptor_->Withdraw(kOther);
  Serve(options);
  pipe::LogLines log;
  const std::string hello = pipe::Handshake(pipe::Role::kDialer, options, kOther, options.window_bytes).Begin();
  for (int i = 0; i < 100; ++i) {
    DialRaw("bot-" + std::to_string(i % 3), hello);
    world_.RunFor(200 * kMicrosecondNs);
  }
  EXPECT_TRUE(In(DialAs("one", 1, kOther, "open sesame open")));
  EXPECT_TRUE(In(DialAs("two", 1)));
  world_.RunFor(7 * kSecondNs);
  EXPECT_EQ(acceptor_->Snapshot().turned_away, 100u);
  EXPECT_EQ(acceptor_->Snapshot().open, 2u);
  EXPECT_LE(log.lines.size(), 3u);
}

// A task has one name, and perhaps an incarnation for each service.
TEST_F(ServiceListenerTest, IncarnationsOfOneServiceAreNotThoseOfTheOther) {
  Dialler *one = DialAs("worker:0", 1), *other = DialAs("worker:0", 2, kOther);
  ASSERT_TRUE(In(one) && In(other));
  world_.RunFor(kSecondNs);
  EXPECT_TRUE(one->in() && other->in());
  Dialler* restarted = DialAs("worker:0", 3, kOther);
  ASSERT_TRUE(In(restarted) && Gone(other));
  EXPECT_THAT(other->receiver.why.cause(), HasSubstr("another incarnation of worker:0 has taken its place"));
  EXPECT_TRUE(one->in());
}

TEST_F(ServiceListenerTest, WhatIsWithdrawnEndsAndTheOtherStays) {
  Dialler *one = DialAs("worker:0", 1), *other = DialAs("/job:worker", 1, kOther);
  ASSERT_TRUE(In(one) && In(other));
  acceptor_->StopServing(kOther);
  world_.RunFor(kSecondNs);
  EXPECT_TRUE(other->in());
  acceptor_->Withdraw(kOther);
  ASSERT_TRUE(Gone(other));
  EXPECT_EQ(acceptor_->Snapshot().open, 1u);
  EXPECT_TRUE(one->in());
  Serve(pipe::Options());
  EXPECT_TRUE(In(DialAs("/job:worker", 2, kOther)));
  acceptor_->StopListening();
  for (uint16_t service : {pipe::kTestService, kOther})
    acceptor_->CloseService(service, Status::Unavailable("the server is shutting down"));
  ASSERT_TRUE(Gone(one) && Gone(diallers_.back().get()));
  EXPECT_THAT(diallers_.back()->receiver.why.cause(), HasSubstr("shutting down"));
  EXPECT_EQ(acceptor_->Snapshot().open, 0u);
}

TEST_F(ServiceListenerTest, MayBeWithdrawnAtAnyMoment) {
  pipe::LogLines log;
  for (int steps = 0; steps < 40; ++steps) {
    SCOPED_TRACE(steps);
    DialAs("worker:0", 1, kOther);
    DialAs("worker:1", 1);
    for (int i = 0; i < steps; ++i) world_.Step();
    acceptor_->Withdraw(kOther);
    world_.RunFor(kSecondNs);
    EXPECT_TRUE(diallers_[0]->gone());
    EXPECT_TRUE(diallers_[1]->in());
    diallers_.clear();
    ASSERT_TRUE(Until([&] { return acceptor_->Snapshot().open == 0; }));
    Serve(pipe::Options());
  }
}

// Bytes that follow a hello go with it, whatever they are.
TEST_F(ServiceListenerTest, LosesNoPlaceUnderRandomFaults) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    pipe::LogLines log;
    const pipe::Options options = FewPlaces();
    Open(options);
    Serve(options);
    const std::string hello = pipe::Handshake(pipe::Role::kDialer, options, kOther, options.window_bytes).Begin();
    const auto come = [&](uint32_t i) {
      const uint16_t service = random.Chance(0.7) ? kOther : pipe::kTestService;
      const std::string name = "worker:" + std::to_string(random.Below(4)) + "/" + std::to_string(service);
      if (random.Chance(0.4)) DialAs(name, random.Between(1, 3), service);
      if (random.Chance(0.3)) DialRaw("scanner", hello + pipe::Payload(random.Below(40), i));
    };
    ExpectNoLostPlaces(&random, 0, come, [](uint64_t i) { return i % 2 == 0 ? kOther : pipe::kTestService; });
  }
}

}  // namespace
}  // namespace fusewire::task
