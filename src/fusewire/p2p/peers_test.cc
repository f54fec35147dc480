// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Which endpoints are connected, and what happens to operations when that changes.
#include <gmock/gmock.h>

#include <deque>

#include "fusewire/p2p/world_test.h"

namespace fusewire::p2p {
namespace {

using testing::HasSubstr;

// One message each way.
testing::AssertionResult Talk(P2pWorld& world, const std::string& one, Peer& other_of_one, const std::string& other,
                              Peer& one_of_other) {
  std::string ping = Pattern(20000, 1), pong = Pattern(100, 2), at_other(20000, '#'), at_one(100, '#');
  SendOp send(world.at(one), other_of_one, 1, ping), back(world.at(other), one_of_other, 2, pong);
  ReceiveOp hear(world.at(other), &one_of_other, 1, BytesOf(at_other)),
      answer(world.at(one), &other_of_one, 2, BytesOf(at_one));
  for (Op* op : std::initializer_list<Op*>{&hear, &answer, &send, &back}) op->Post();
  for (Op* op : std::initializer_list<Op*>{&send, &back, &hear, &answer}) {
    testing::AssertionResult ended = world.Ends(*op);
    if (!ended) {
      for (Op* left : std::initializer_list<Op*>{&hear, &answer, &send, &back}) left->Cancel();
      world.world.RunFor(5 * kSecondNs);
      return ended;
    }
  }
  if (at_other != ping || at_one != pong) return testing::AssertionFailure() << "other bytes than were sent";
  return testing::AssertionSuccess();
}

TEST(Peers, TwoThatDialEachOtherEndWithOnePipe) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    transport::LoopbackFaults faults = Splitting();
    faults.dial_delay_ns_max = 3 * kMillisecondNs;
    P2pWorld world(seed, faults);
    world.Add("a");
    world.Add("b");
    Peer& to_b = world.Connect("a", "b");
    Peer& to_a = world.Connect("b", "a");
    ASSERT_TRUE(Talk(world, "a", to_b, "b", to_a)) << "seed " << seed;
    world.world.RunFor(30 * kSecondNs);
    ASSERT_TRUE(Talk(world, "b", to_a, "a", to_b)) << "seed " << seed;
    for (const char* name : {"a", "b"}) {
      EXPECT_EQ(world.tasks[name].Count(PeerEvent::kUp), 1) << "seed " << seed;
      EXPECT_EQ(world.tasks[name].Count(PeerEvent::kDown), 0) << "seed " << seed;
    }
  }
}

// The last messages of an endpoint arrive, even if the second of the two pipes opens only after it has closed and is
// faster.
TEST(Peers, LeavingLosesNothingForAPeerThatStillReads) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    P2pWorld world(seed);
    Endpoint& a = world.Add("a");
    Endpoint& b = world.Add("b");
    transport::LoopbackFaults faults;
    faults.latency_ns_max = 5 * kMillisecondNs;
    world.world.SetFaultsBetween("a", "b", faults);
    Peer& to_b = world.Connect("a", "b");
    Peer& to_a = world.Connect("b", "a");
    std::string text = Pattern(100, seed), got(100, '#');
    SendOp send(b, to_a, 1, text);
    ReceiveOp receive(a, &to_b, 1, BytesOf(got)), never(b, &to_a, 2, Bytes());
    receive.Post();  // now both dial
    never.Post();
    ASSERT_TRUE(world.RunUntil([&] { return to_a.up(); }));
    faults.latency_ns_min = faults.latency_ns_max = 100 * kMillisecondNs;
    world.world.SetFaultsBetween("b", "a", faults);
    send.Post();
    ASSERT_TRUE(world.Ends(send)) << "seed " << seed;
    world.world.ClearFaultsBetween("b", "a");
    b.Close();
    ASSERT_TRUE(world.Ends(receive)) << "seed " << seed;
    EXPECT_EQ(got, text);
    auto late = b.Connect("c", {"c", 5555});
    EXPECT_EQ(late.status().code(), Code::kUnavailable) << late.status().ToString();
  }
}

TEST(Peers, EitherSideMayDial) {
  for (const char* dialer : {"a", "b"}) {
    P2pWorld world;
    world.Add("a");
    world.Add("b");
    std::string other = dialer[0] == 'a' ? "b" : "a";
    Peer& there = world.Connect(dialer, other);
    Peer& back = world.Expect(other, dialer);
    EXPECT_TRUE(Talk(world, dialer, there, other, back));
  }
}

TEST(Peers, DeathEndsAllThatIsUnderWayWithThatPeerAlone) {
  for (auto death : {transport::LoopbackDeath::kReset, transport::LoopbackDeath::kSilent}) {
    P2pWorld world;
    Endpoint& a = world.Add("a");
    world.Add("b");
    world.Add("c");
    Peer& to_b = world.Connect("a", "b");
    Peer& to_c = world.Connect("a", "c");
    ASSERT_TRUE(Talk(world, "a", to_b, "b", world.Expect("b", "a")));
    ASSERT_TRUE(Talk(world, "a", to_c, "c", world.Expect("c", "a")));
    std::string large = Pattern(100000, 1), got(100000, '#');
    SendOp send(a, to_b, 9, large);
    ReceiveOp receive(a, &to_b, 9, BytesOf(got)), any(a, nullptr, 10, BytesOf(got)), other(a, &to_c, 9, BytesOf(got));
    for (Op* op : std::initializer_list<Op*>{&send, &receive, &any, &other}) {
      op->timeout_ns = kForeverNs;
      op->Post();
    }
    world.world.RunFor(kMillisecondNs);
    world.Kill("b", death);
    ASSERT_TRUE(world.Finish({&send, &receive}));
    for (Op* op : std::initializer_list<Op*>{&send, &receive}) {
      EXPECT_EQ(op->status().code(), Code::kUnavailable) << op->status().ToString();
      EXPECT_THAT(op->status().ToString(), HasSubstr("peer b"));
    }
    EXPECT_FALSE(any.Test());
    EXPECT_FALSE(other.Test());
    EXPECT_EQ(world.tasks["a"].Count(PeerEvent::kDown), 1);
    EXPECT_FALSE(to_b.up());
    EXPECT_TRUE(to_c.up());
    world.Take("a");
    ASSERT_TRUE(world.Finish({&any, &other}));
    EXPECT_EQ(any.status().code(), Code::kCancelled);
  }
}

TEST(Peers, WhatWasMeantForTheOldOneNeverReachesTheNew) {
  P2pWorld world;
  Endpoint& a = world.Add("a");
  world.Add("b");
  Peer& to_b = world.Connect("a", "b");
  ASSERT_TRUE(Talk(world, "a", to_b, "b", world.Expect("b", "a")));
  uint64_t before = to_b.incarnation();
  world.Kill("b");
  ASSERT_TRUE(world.RunUntil([&] { return !to_b.up(); }));
  std::string text = "for the old one", got(100, '#');
  SendOp send(a, to_b, 9, text);
  ReceiveOp receive(a, &to_b, 9, BytesOf(got));
  send.Post();
  receive.Post();
  Endpoint& b = world.Restart("b");
  ReceiveOp there(b, nullptr, 9, BytesOf(got));
  there.Post();
  ASSERT_TRUE(world.Finish({&send, &receive}));
  EXPECT_EQ(send.status().code(), Code::kUnavailable);
  EXPECT_THAT(send.status().ToString(), HasSubstr("restarted"));
  EXPECT_THAT(receive.status().ToString(), HasSubstr("restarted"));
  EXPECT_EQ(world.tasks["a"].Count(PeerEvent::kRestarted), 1);
  EXPECT_NE(to_b.incarnation(), before);
  send.Post();
  ASSERT_TRUE(world.Ends(send));
  ASSERT_TRUE(world.Ends(there));
  EXPECT_EQ(got.substr(0, text.size()), text);
}

TEST(Peers, ReconnectsAfterCutsWhenNeeded) {
  P2pWorld world;
  world.Add("a");
  world.Add("b");
  Peer& to_b = world.Connect("a", "b");
  Peer& to_a = world.Connect("b", "a");
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(Talk(world, "a", to_b, "b", to_a)) << i;
    world.world.Cut("a", "b");
    ASSERT_TRUE(world.RunUntil([&] { return !to_b.up() && !to_a.up(); })) << i;
  }
  // One side alone does not know.
  for (int i = 0; i < 10; ++i) {
    const char* deaf = i % 2 == 0 ? "a" : "b";
    ASSERT_TRUE(Talk(world, "a", to_b, "b", to_a)) << i;
    transport::LoopbackFaults lost;
    lost.lost = true;
    world.world.SetFaultsBetween(deaf[0] == 'a' ? "b" : "a", deaf, lost);
    world.world.RunFor(kSecondNs);
    world.world.ClearFaultsBetween(deaf[0] == 'a' ? "b" : "a", deaf);
    world.world.RunFor(60 * kSecondNs);
  }
}

// The send ends when that pipe gives its memory back, after the next pipe has begun to count offers.
TEST(Peers, MessagesOnTheOldPipeAreNotOffersOfTheNewOne) {
  P2pWorld world;
  pipe::Options hears_at_once;
  hears_at_once.silent_ns_max = 2 * kSecondNs;
  Endpoint& a = world.Add("a");
  world.Add("b", Limits(), hears_at_once);
  Peer& to_b = world.Connect("a", "b");
  Peer& to_a = world.Connect("b", "a");
  ASSERT_TRUE(Talk(world, "a", to_b, "b", to_a));
  std::string text = Pattern(8 << 20, 1), got(text.size(), '#');
  SendOp send(a, to_b, 7, text);
  ReceiveOp receive(world.at("b"), &to_a, 7, BytesOf(got));
  transport::LoopbackFaults slow, lost;
  slow.bytes_per_second = 1 << 20;
  lost.lost = true;
  world.world.SetFaultsBetween("a", "b", slow);
  receive.Post();
  send.Post();
  world.world.RunFor(kSecondNs);
  world.world.SetFaultsBetween("a", "b", lost);
  world.world.SetFaultsBetween("b", "a", lost);
  ASSERT_TRUE(world.RunUntil([&] { return !to_a.up(); }));
  EXPECT_TRUE(to_b.up());
  world.world.ClearFaultsBetween("a", "b");
  world.world.ClearFaultsBetween("b", "a");
  AwaitPeerOp again(world.at("b"), to_a);
  again.Post();
  ASSERT_TRUE(world.Ends(again));
  EXPECT_FALSE(send.Test());
  ASSERT_TRUE(world.Finish({&send, &receive}));
  EXPECT_EQ(send.status().code(), Code::kUnavailable) << send.status().ToString();
  ASSERT_TRUE(Talk(world, "a", to_b, "b", to_a));
}

TEST(Peers, AnAbsentPeerIsAnErrorInTime) {
  P2pWorld world;
  Limits limits;
  limits.patience_ns = 3 * kSecondNs;
  Endpoint& a = world.Add("a", limits);
  world.world.AddHost("nobody");
  Peer& nobody = world.Connect("a", "nobody");
  Peer& expected = world.Expect("a", "expected");
  std::string text = "hello";
  SendOp send(a, nobody, 1, text), wait(a, expected, 1, text);
  AwaitPeerOp up(a, nobody);
  for (Op* op : std::initializer_list<Op*>{&send, &wait, &up}) op->Post();
  int64_t start_ns = world.world.clock()->NowNs();
  ASSERT_TRUE(world.Finish({&send, &wait, &up}));
  EXPECT_NEAR(static_cast<double>(world.world.clock()->NowNs() - start_ns), 3e9, 1e8);
  EXPECT_EQ(send.status().code(), Code::kUnavailable);
  EXPECT_THAT(send.status().ToString(), HasSubstr("refused"));
  EXPECT_THAT(wait.status().ToString(), HasSubstr("it has to dial us"));
}

TEST(Peers, AnotherNameAtThatAddressIsRefused) {
  P2pWorld world;
  Endpoint& a = world.Add("a");
  world.Add("b");
  Peer* wrong = a.Connect("c", {"b", 5555}).value();
  std::string text = "hello";
  SendOp send(a, *wrong, 1, text);
  send.Post();
  ASSERT_TRUE(world.Finish({&send}));
  EXPECT_EQ(send.status().code(), Code::kRefused) << send.status().ToString();
  EXPECT_THAT(send.status().ToString(), HasSubstr("\"b\" answers there"));
  EXPECT_EQ(a.Connect("a", {"a", 5555}).status().code(), Code::kRefused);
}

TEST(Peers, ManyTalkAtOnce) {
  P2pWorld world(9, Splitting());
  constexpr int kPeers = 8;
  std::vector<std::string> names;
  for (int i = 0; i < kPeers; ++i) names.push_back("n" + std::to_string(i));
  for (const std::string& name : names) world.Add(name);
  std::deque<SendOp> sends;
  std::deque<ReceiveOp> receives;
  std::deque<std::string> sent, got;
  for (int i = 0; i < kPeers; ++i) {
    for (int j = 0; j < kPeers; ++j) {
      if (i == j) continue;
      sent.push_back(Pattern(static_cast<size_t>(1000 + 9000 * ((i + j) % 3)), static_cast<uint64_t>(i * kPeers + j)));
      got.emplace_back(sent.back().size(), '#');
      auto tag = static_cast<uint64_t>(i);
      sends.emplace_back(world.at(names[static_cast<size_t>(i)]),
                         world.Connect(names[static_cast<size_t>(i)], names[static_cast<size_t>(j)]), tag, sent.back());
      receives.emplace_back(world.at(names[static_cast<size_t>(j)]),
                            &world.Connect(names[static_cast<size_t>(j)], names[static_cast<size_t>(i)]), tag,
                            BytesOf(got.back()));
    }
  }
  for (SendOp& send : sends) send.Post();
  for (ReceiveOp& receive : receives) receive.Post();
  for (size_t i = 0; i < sends.size(); ++i) {
    ASSERT_TRUE(world.Ends(receives[i])) << i;
    ASSERT_TRUE(world.Ends(sends[i])) << i;
    EXPECT_TRUE(got[i] == sent[i]) << i;
  }
}

}  // namespace
}  // namespace fusewire::p2p
