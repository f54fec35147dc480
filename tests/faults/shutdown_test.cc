// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Tasks that end while calls are under way at both ends: every Done comes once, the process ends in time and by itself.
// A leak makes the sanitizer end it with another code than 0.
#include "faults.h"

namespace fusewire::faults {
namespace {

class Shutdowns : public Faults {
 protected:
  static void Flood(PeerProcess& from, const transport::Address& to) {
    for (uint16_t method : {kHold, kSlow, kEcho, kProduce}) {
      std::string command =
          "flood " + to.ToString() + " 4 " + std::to_string(method) + " 50 " + (method == kProduce ? "100000" : "30");
      ASSERT_EQ(from.Ask(command), "flooding");
    }
  }
  // All that it has started has ended, and it with them.
  static void ExpectEnd(PeerProcess& peer, const std::string& last_words, int64_t limit_ns) {
    EXPECT_EQ(peer.WaitForExit(limit_ns), 0) << peer.Log();
    std::istringstream words(last_words);
    Numbers dones;
    std::string name;
    for (int64_t value = 0; words >> name >> value;) dones[name] = value;
    EXPECT_GT(dones["started"], 0) << last_words;
    EXPECT_EQ(dones["ended"], dones["started"]);
    EXPECT_EQ(dones["twice"], 0);
  }
};

TEST_F(Shutdowns, BothEndsAtOnce) {
  for (const char* grace_ms : {"0", "100"}) {
    PeerProcess one("name=a:0"), other("name=b:0");
    ASSERT_TRUE(one.ready() && other.ready()) << one.first_words() << other.first_words();
    ASSERT_NO_FATAL_FAILURE(Flood(one, other.address()));
    ASSERT_NO_FATAL_FAILURE(Flood(other, one.address()));
    ASSERT_TRUE(Eventually([&] { return one.AskNumbers("stats")["in_flight"] >= 200; }));
    one.Tell(std::string("quit ") + grace_ms);
    other.Tell(std::string("quit ") + grace_ms);
    ExpectEnd(one, one.Listen(kPatienceNs), Within(5 * kSecondNs));
    ExpectEnd(other, other.Listen(kPatienceNs), Within(5 * kSecondNs));
  }
}

// A server finishes the calls in flight, and sends the other callers a goodbye.
TEST_F(Shutdowns, AServerThatEndsAnswersWhatItHasWithinTheGrace) {
  PeerProcess peer("name=ps:0");
  ASSERT_TRUE(peer.ready()) << peer.first_words();
  rpc::ClientOptions patient;
  patient.patience_ns = 500 * kMillisecondNs;
  rpc::Client& client = ClientOf(peer.address(), patient);
  for (int i = 0; i < 20; ++i) calls_.Start(client, kSlow, "200");
  ASSERT_TRUE(InFlight(peer, 20));
  peer.Tell("quit 10000");
  calls_.ExpectAll(Code::kOk, NowNs(), kPatienceNs);
  EXPECT_EQ(peer.WaitForExit(kPatienceNs), 0) << peer.Log();
  Calls late;
  int64_t begin_ns = NowNs();
  late.Start(client, kEcho);
  late.ExpectAll(Code::kUnavailable, begin_ns, patient.patience_ns + kToldNs);
}

TEST_F(Shutdowns, WithoutGraceCallsInFlightHearOfIt) {
  PeerProcess peer("name=ps:0");
  ASSERT_TRUE(peer.ready()) << peer.first_words();
  rpc::Client& client = ClientOf(peer.address());
  for (int i = 0; i < 20; ++i) calls_.Start(client, kHold);
  ASSERT_TRUE(InFlight(peer, 20));
  int64_t begin_ns = NowNs();
  peer.Tell("quit 0");
  calls_.ExpectAll(Code::kUnavailable, begin_ns, kToldNs);
  EXPECT_THAT(calls_.all()[0].status.cause(), testing::HasSubstr("shutting down"));
  EXPECT_EQ(peer.WaitForExit(kPatienceNs), 0) << peer.Log();
}

// The other end neither reads nor answers: the goodbye has a limit of its own.
TEST_F(Shutdowns, WhileTheOtherEndIsStopped) {
  PeerProcess one("name=a:0"), other("name=b:0");
  ASSERT_TRUE(one.ready() && other.ready()) << one.first_words() << other.first_words();
  ASSERT_NO_FATAL_FAILURE(Flood(one, other.address()));
  ASSERT_NO_FATAL_FAILURE(Flood(other, one.address()));
  ASSERT_TRUE(Eventually([&] { return one.AskNumbers("stats")["in_flight"] >= 200; }));
  other.Stop();
  one.Tell("quit 100");
  ExpectEnd(one, one.Listen(kPatienceNs), Within(5 * kSecondNs));
  other.Continue();
  other.Tell("quit 0");
  ExpectEnd(other, other.Listen(kPatienceNs), Within(5 * kSecondNs));
}

// Nobody is there, nothing was ever sent.
TEST_F(Shutdowns, WhileItDialsInVain) {
  PeerProcess peer("name=a:0");
  ASSERT_TRUE(peer.ready()) << peer.first_words();
  ASSERT_NO_FATAL_FAILURE(Flood(peer, {OwnHost(3), 1}));
  peer.Tell("quit 0");
  ExpectEnd(peer, peer.Listen(kPatienceNs), Within(5 * kSecondNs));
}

}  // namespace
}  // namespace fusewire::faults
