// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "loopback/loopback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/transport/talker_test.h"

namespace fusewire::transport {
namespace {

using testing::HasSubstr;

LoopbackFaults Nasty() {
  LoopbackFaults faults;
  faults.split = true;
  faults.late_answer_chance = 0.3;
  faults.latency_ns_max = 2 * kMillisecondNs;
  faults.dial_delay_ns_max = 3 * kMillisecondNs;
  return faults;
}

void AtHome(reactor::Reactor* home, UniqueFunction<void()> what) { home->Run(std::move(what)); }

// A world of two hosts, "client" and "server", with a connection between them.
class Pair {
 public:
  explicit Pair(uint64_t seed, const LoopbackFaults& faults = Nasty())
      : world(seed, faults), client_home(world.AddHost("client")), server_home(world.AddHost("server")) {
    client_transport = world.MakeTransport("client");
    Listen(seed);
  }

  ~Pair() {
    AtHome(client_home, [this] {
      dialing.reset();
      client.reset();
    });
    AtHome(server_home, [this] {
      listener.reset();
      server.reset();
    });
  }

  void Listen(uint64_t seed) {
    server_transport = world.MakeTransport("server");
    AtHome(server_home, [this, seed] {
      auto listening =
          server_transport->Listen(*server_home, {"", 5555}, [this, seed](std::unique_ptr<Incoming> incoming) {
            server = std::make_unique<Talker>(seed + 1);
            server->Meet(incoming->Adopt(*server_home).value());
          });
      ASSERT_TRUE(listening.ok()) << listening.status().ToString();
      listener = std::move(listening).value();
    });
  }

  // Dials; the outcome is in `dialled`, and client talks if it is ok.
  void Dial(const Address& address = {"server", 5555}, int64_t timeout_ns = kSecondNs) {
    AtHome(client_home, [this, &address, timeout_ns] {
      outcomes = 0;
      dialing =
          client_transport->Dial(*client_home, address, timeout_ns, [this](Result<std::unique_ptr<Connection>> made) {
            ++outcomes;
            dialled = made.status();
            if (!made.ok()) return;
            client = std::make_unique<Talker>(7);
            client->Meet(std::move(made).value());
          });
      EXPECT_EQ(outcomes, 0);
    });
  }

  bool Connect() {
    Dial();
    return world.RunUntil([this] { return client != nullptr && server != nullptr; }, kSecondNs);
  }

  LoopbackWorld world;
  reactor::Reactor* client_home;
  reactor::Reactor* server_home;
  std::unique_ptr<Transport> client_transport, server_transport;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Dialing> dialing;
  std::unique_ptr<Talker> client, server;
  int outcomes = 0;
  Status dialled;
};

// Sends `bytes` both ways, and returns the world's fingerprint.
uint64_t Chat(uint64_t seed, uint64_t bytes) {
  Pair pair(seed);
  EXPECT_TRUE(pair.Connect());
  AtHome(pair.client_home, [&] { pair.client->SayPattern(bytes); });
  AtHome(pair.server_home, [&] { pair.server->SayPattern(bytes); });
  EXPECT_TRUE(
      pair.world.RunUntil([&] { return pair.client->heard == bytes && pair.server->heard == bytes; }, 60 * kSecondNs));
  for (Talker* talker : {pair.client.get(), pair.server.get()}) {
    EXPECT_TRUE(talker->as_pattern);
    EXPECT_EQ(talker->fault(), "");
    EXPECT_EQ(talker->closed, 0);
  }
  return pair.world.fingerprint();
}

TEST(Loopback, CarriesBytesBothWaysInOrder) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Chat(seed, 300 * 1000);
  }
}

TEST(Loopback, RepeatsARunFromItsSeed) {
  uint64_t first = Chat(5, 100 * 1000);
  EXPECT_EQ(Chat(5, 100 * 1000), first);
  EXPECT_NE(Chat(6, 100 * 1000), first);
}

// ---- the end of a connection ----

// Runs until both ends have closed, and expects that both did so once.
void ExpectBothClose(Pair* pair, int64_t limit_ns = kSecondNs) {
  EXPECT_TRUE(pair->world.RunUntil([&] { return pair->client->closed > 0 && pair->server->closed > 0; }, limit_ns));
  pair->world.RunFor(kSecondNs);
  for (Talker* talker : {pair->client.get(), pair->server.get()}) {
    EXPECT_EQ(talker->closed, 1);
    EXPECT_EQ(talker->fault(), "");
  }
}

TEST(Loopback, CloseDeliversWhatWasWritten) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Pair pair(seed);
    ASSERT_TRUE(pair.Connect());
    AtHome(pair.client_home, [&] {
      pair.client->SayPattern(50 * 1000);
      pair.client->CloseWhenSaid();
    });
    ExpectBothClose(&pair, 20 * kSecondNs);
    EXPECT_EQ(pair.server->heard, 50u * 1000);
    EXPECT_TRUE(pair.server->as_pattern);
    EXPECT_EQ(pair.client->why().code(), Code::kCancelled);
    EXPECT_THAT(pair.server->why().cause(), HasSubstr("closed"));
  }
}

TEST(Loopback, ACutIsAnErrorOnBothSides) {
  Pair pair(1);
  ASSERT_TRUE(pair.Connect());
  AtHome(pair.client_home, [&] { pair.client->SayPattern(10 * 1000 * 1000); });
  EXPECT_TRUE(pair.world.RunUntil([&] { return pair.server->heard > 1000; }, kSecondNs));
  pair.world.Cut("client", "server");
  ExpectBothClose(&pair);
  EXPECT_THAT(pair.client->why().cause(), HasSubstr("reset"));
  EXPECT_THAT(pair.server->why().cause(), HasSubstr("reset"));
  EXPECT_TRUE(pair.server->as_pattern);  // as far as it came
}

TEST(Loopback, AHalfCloseEndsBothWays) {
  Pair pair(2);
  ASSERT_TRUE(pair.Connect());
  pair.world.HalfClose("client", "server");
  ExpectBothClose(&pair);
  EXPECT_THAT(pair.server->why().cause(), HasSubstr("closed"));
}

TEST(Loopback, DroppingAnEndIsSilentThereAndHeardAtTheOther) {
  Pair pair(3);
  ASSERT_TRUE(pair.Connect());
  AtHome(pair.client_home, [&] { pair.client->Drop(); });
  EXPECT_TRUE(pair.world.RunUntil([&] { return pair.server->closed > 0; }, kSecondNs));
  EXPECT_EQ(pair.client->closed, 0);
}

TEST(Loopback, RandomCutsMeetBothEnds) {
  int cut = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    LoopbackFaults faults = Nasty();
    faults.cut_chance = 0.005;
    Pair pair(seed, faults);
    ASSERT_TRUE(pair.Connect());
    AtHome(pair.client_home, [&] { pair.client->SayPattern(300 * 1000); });
    bool done = pair.world.RunUntil([&] { return pair.server->heard == 300u * 1000; }, 10 * kSecondNs);
    EXPECT_TRUE(pair.server->as_pattern);
    if (done) continue;
    ++cut;
    ExpectBothClose(&pair);
  }
  EXPECT_GT(cut, 2);
}

// ---- a network that fails in silence ----

TEST(Loopback, WhatIsCloggedArrivesLater) {
  Pair pair(4);
  ASSERT_TRUE(pair.Connect());
  LoopbackFaults clogged = Nasty();
  clogged.clogged = true;
  pair.world.SetFaultsBetween("client", "server", clogged);
  AtHome(pair.client_home, [&] { pair.client->SayPattern(1000 * 1000); });
  AtHome(pair.server_home, [&] { pair.server->SayPattern(1000); });
  EXPECT_TRUE(pair.world.RunUntil([&] { return pair.client->heard == 1000; }, kSecondNs));  // the other way is open
  pair.world.RunFor(10 * kSecondNs);
  EXPECT_EQ(pair.server->heard, 0u);
  EXPECT_LE(pair.client->said, clogged.send_buffer_bytes);  // the sender was held up
  pair.world.ClearFaultsBetween("client", "server");
  EXPECT_TRUE(pair.world.RunUntil([&] { return pair.server->heard == 1000u * 1000; }, 10 * kSecondNs));
  EXPECT_TRUE(pair.server->as_pattern);
  EXPECT_EQ(pair.client->closed + pair.server->closed, 0);
}

TEST(Loopback, WhatIsLostIsMissedOnlyByTheSendersKernel) {
  Pair pair(5);
  ASSERT_TRUE(pair.Connect());
  LoopbackFaults lost = Nasty();
  lost.lost = true;
  pair.world.SetFaultsBetween("client", "server", lost);
  AtHome(pair.client_home, [&] { pair.client->SayPattern(1000); });
  pair.world.RunFor(kSecondNs);
  pair.world.ClearFaultsBetween("client", "server");
  pair.world.RunFor(10 * kSecondNs);
  EXPECT_EQ(pair.client->closed, 0);
  // The other way is as it was, though nobody can answer.
  AtHome(pair.server_home, [&] { pair.server->SayPattern(1000); });
  EXPECT_TRUE(pair.world.RunUntil([&] { return pair.client->heard == 1000; }, kSecondNs));
  EXPECT_TRUE(pair.world.RunUntil([&] { return pair.client->closed > 0; }, 20 * kSecondNs));
  EXPECT_THAT(pair.client->why().cause(), HasSubstr("timed out"));
  EXPECT_EQ(pair.server->heard, 0u);
}

TEST(Loopback, APausedHostHoldsItsPeersUpAndGoesOn) {
  Pair pair(6);
  ASSERT_TRUE(pair.Connect());
  pair.world.PauseHost("server");
  AtHome(pair.client_home, [&] { pair.client->SayPattern(10 * 1000 * 1000); });
  pair.world.RunFor(30 * kSecondNs);
  LoopbackFaults faults = pair.world.FaultsBetween("client", "server");
  EXPECT_EQ(pair.server->heard, 0u);
  EXPECT_LE(pair.client->said, faults.send_buffer_bytes + 2 * faults.receive_buffer_bytes);
  EXPECT_GE(pair.client->said, faults.send_buffer_bytes);
  pair.world.ResumeHost("server");
  EXPECT_TRUE(pair.world.RunUntil([&] { return pair.server->heard == 10u * 1000 * 1000; }, 100 * kSecondNs));
  EXPECT_TRUE(pair.server->as_pattern);
}

TEST(Loopback, BandwidthIsWhatItIsSetTo) {
  LoopbackFaults faults;
  faults.bytes_per_second = 10 * 1000 * 1000;
  Pair pair(7, faults);
  ASSERT_TRUE(pair.Connect());
  int64_t began_ns = pair.world.clock()->NowNs();
  AtHome(pair.client_home, [&] { pair.client->SayPattern(20 * 1000 * 1000); });
  EXPECT_TRUE(pair.world.RunUntil([&] { return pair.server->heard == 20u * 1000 * 1000; }, 60 * kSecondNs));
  int64_t took_ns = pair.world.clock()->NowNs() - began_ns;
  EXPECT_GE(took_ns, 2 * kSecondNs);
  EXPECT_LE(took_ns, 21 * kSecondNs / 10);
}

// ---- a network that lies ----

TEST(Loopback, LiesWhenTold) {
  struct Lie {
    double LoopbackFaults::*chance;
    bool shorter, longer;
  };
  for (const Lie& lie :
       {Lie{&LoopbackFaults::corrupt_chance, false, false}, Lie{&LoopbackFaults::drop_chance, true, false},
        Lie{&LoopbackFaults::duplicate_chance, false, true}}) {
    LoopbackFaults faults = Nasty();
    faults.*lie.chance = 0.05;
    Pair pair(8, faults);
    ASSERT_TRUE(pair.Connect());
    AtHome(pair.client_home, [&] { pair.client->SayPattern(200 * 1000); });
    pair.world.RunFor(60 * kSecondNs);
    EXPECT_FALSE(pair.server->as_pattern);
    EXPECT_EQ(pair.server->heard < 200u * 1000, lie.shorter);
    EXPECT_EQ(pair.server->heard > 200u * 1000, lie.longer);
    EXPECT_EQ(pair.server->fault(), "");
  }
}

// ---- hosts ----

TEST(Loopback, AKilledHostsConnectionsAreReset) {
  Pair pair(9);
  ASSERT_TRUE(pair.Connect());
  pair.world.KillHost("server", LoopbackDeath::kReset);
  EXPECT_TRUE(pair.world.RunUntil([&] { return pair.client->closed > 0; }, kSecondNs));
  EXPECT_THAT(pair.client->why().cause(), HasSubstr("reset"));
  pair.Dial();
  EXPECT_TRUE(pair.world.RunUntil([&] { return pair.outcomes == 1; }, kSecondNs));
  EXPECT_THAT(pair.dialled.cause(), HasSubstr("refused"));
  EXPECT_EQ(pair.server->closed, 0);  // a killed host sends nothing
}

TEST(Loopback, ASilentHostAnswersForItsDeadOnceItIsBack) {
  Pair pair(10);
  ASSERT_TRUE(pair.Connect());
  pair.world.KillHost("server", LoopbackDeath::kSilent);
  AtHome(pair.client_home, [&] { pair.client->Say("are you there?"); });
  pair.world.RunFor(5 * kSecondNs);
  EXPECT_EQ(pair.client->closed, 0);
  pair.Dial();
  EXPECT_TRUE(pair.world.RunUntil([&] { return pair.outcomes == 1; }, 10 * kSecondNs));
  EXPECT_EQ(pair.dialled.code(), Code::kTimeout);
  Talker* old_client = pair.client.get();

  reactor::Reactor* dead_home = pair.server_home;
  AtHome(dead_home, [&] {
    pair.listener.reset();
    pair.server.reset();
  });
  pair.server_home = pair.world.RestartHost("server");
  EXPECT_NE(pair.server_home, dead_home);
  EXPECT_TRUE(pair.world.RunUntil([&] { return old_client->closed > 0; }, kSecondNs));
  EXPECT_THAT(old_client->why().cause(), HasSubstr("reset"));
  pair.Dial();
  EXPECT_TRUE(pair.world.RunUntil([&] { return pair.outcomes == 1; }, kSecondNs));
  EXPECT_THAT(pair.dialled.cause(), HasSubstr("refused"));  // up, but nobody listens
  pair.Listen(10);
  EXPECT_TRUE(pair.Connect());
}

TEST(Loopback, ASilentDeathWithNothingOnTheWayIsNoticedByTheNextWord) {
  Pair pair(11);
  ASSERT_TRUE(pair.Connect());
  pair.world.KillHost("server", LoopbackDeath::kSilent);
  AtHome(pair.server_home, [&] {
    pair.listener.reset();
    pair.server.reset();
  });
  pair.server_home = pair.world.RestartHost("server");
  pair.world.RunFor(100 * kSecondNs);
  EXPECT_EQ(pair.client->closed, 0);
  AtHome(pair.client_home, [&] { pair.client->Say("are you there?"); });
  EXPECT_TRUE(pair.world.RunUntil([&] { return pair.client->closed > 0; }, kSecondNs));
  EXPECT_THAT(pair.client->why().cause(), HasSubstr("reset"));
}

// ---- dialling ----

TEST(Loopback, ANameIsFoundWhereItPointsNow) {
  Pair pair(12);
  pair.world.AddHost("elsewhere");
  pair.Dial({"service", 5555});
  EXPECT_TRUE(pair.world.RunUntil([&] { return pair.outcomes == 1; }, kSecondNs));
  EXPECT_THAT(pair.dialled.cause(), HasSubstr("does not resolve"));
  pair.world.PointName("service", "elsewhere");
  pair.Dial({"service", 5555});
  EXPECT_TRUE(pair.world.RunUntil([&] { return pair.outcomes == 1; }, kSecondNs));
  EXPECT_THAT(pair.dialled.cause(), HasSubstr("refused"));
  pair.world.PointName("service", "server");
  pair.Dial({"service", 5555});
  EXPECT_TRUE(pair.world.RunUntil([&] { return pair.outcomes == 1 && pair.server != nullptr; }, kSecondNs));
  EXPECT_TRUE(pair.dialled.ok());
}

TEST(Loopback, DialsAreRefusedByChanceAndHeldUpByClogs) {
  LoopbackFaults faults = Nasty();
  faults.refuse_chance = 1.0;
  Pair pair(13, faults);
  pair.Dial();
  EXPECT_TRUE(pair.world.RunUntil([&] { return pair.outcomes == 1; }, kSecondNs));
  EXPECT_THAT(pair.dialled.cause(), HasSubstr("refused"));
  faults.refuse_chance = 0;
  faults.clogged = true;
  pair.world.SetFaults(faults);
  pair.Dial({"server", 5555}, 10 * kSecondNs);
  pair.world.RunFor(5 * kSecondNs);
  EXPECT_EQ(pair.outcomes, 0);
  faults.clogged = false;
  pair.world.SetFaults(faults);
  EXPECT_TRUE(pair.world.RunUntil([&] { return pair.outcomes == 1; }, kSecondNs));
  EXPECT_TRUE(pair.dialled.ok());
}

TEST(Loopback, AWorldWithoutEventsStandsStill) {
  LoopbackWorld world(1, LoopbackFaults());
  world.AddHost("lonely");
  EXPECT_FALSE(world.Step());
  int64_t before_ns = world.clock()->NowNs();
  EXPECT_FALSE(world.RunUntil([] { return false; }, kForeverNs));
  EXPECT_EQ(world.clock()->NowNs(), before_ns);
  world.RunFor(kSecondNs);
  EXPECT_EQ(world.clock()->NowNs(), before_ns + kSecondNs);
}

}  // namespace
}  // namespace fusewire::transport
