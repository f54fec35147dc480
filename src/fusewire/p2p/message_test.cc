// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A send meets its receive: in either order, of any size, and with any end.
#include <gmock/gmock.h>

#include <algorithm>
#include <deque>

#include "fusewire/p2p/world_test.h"

namespace fusewire::p2p {
namespace {

using testing::HasSubstr;

constexpr size_t kSizes[] = {0, 1, 64, 2048, 2049, 16384, 32768, 32769, 100000, 3 << 20};

// a and b, connected by name; a dials.
struct Pair {
  explicit Pair(uint64_t seed = 1, const transport::LoopbackFaults& faults = {}, const Limits& limits = Limits())
      : world(seed, faults), a(world.Add("a", limits)), b(world.Add("b", limits)) {
    b_of_a = &world.Connect("a", "b");
    a_of_b = &world.Expect("b", "a");
    AwaitPeerOp one(a, *b_of_a), other(b, *a_of_b);
    one.Post();
    other.Post();
    EXPECT_TRUE(world.Ends(one));
    EXPECT_TRUE(world.Ends(other));
  }
  P2pWorld world;
  Endpoint& a;
  Endpoint& b;
  Peer* b_of_a;
  Peer* a_of_b;
};

class MessageSizes : public testing::TestWithParam<size_t> {};

TEST_P(MessageSizes, MeetsAReceiveThatWasPostedBefore) {
  Pair pair(7, Splitting());
  std::string sent = Pattern(GetParam(), 1), got(GetParam(), '#');
  ReceiveOp receive(pair.b, pair.a_of_b, 5, BytesOf(got));
  receive.Post();
  pair.world.world.RunFor(kMillisecondNs);
  SendOp send(pair.a, *pair.b_of_a, 5, sent);
  std::string head = "about it";
  send.head = head;
  send.Post();
  ASSERT_TRUE(pair.world.Ends(receive));
  EXPECT_TRUE(pair.world.Ends(send));
  EXPECT_EQ(receive.bytes, GetParam());
  EXPECT_EQ(receive.head, "about it");
  EXPECT_EQ(receive.source, pair.a_of_b);
  EXPECT_TRUE(got == sent);
}

TEST_P(MessageSizes, WaitsForAReceiveThatIsPostedLater) {
  Pair pair(8, Splitting());
  std::string sent = Pattern(GetParam(), 2), got(GetParam() + 100, '#');
  SendOp send(pair.a, *pair.b_of_a, 5, sent);
  send.Post();
  pair.world.world.RunFor(20 * kMillisecondNs);
  EXPECT_EQ(send.Test(), GetParam() <= 32768) << "a small one has left, a large one waits";
  ReceiveOp receive(pair.b, nullptr, 5, BytesOf(got));
  receive.Post();
  ASSERT_TRUE(pair.world.Ends(receive));
  EXPECT_TRUE(pair.world.Ends(send));
  EXPECT_EQ(receive.bytes, GetParam());
  EXPECT_EQ(receive.source, pair.a_of_b);
  EXPECT_TRUE(got.substr(0, GetParam()) == sent);
  EXPECT_TRUE(got.substr(GetParam()) == std::string(100, '#'));
}

INSTANTIATE_TEST_SUITE_P(All, MessageSizes, testing::ValuesIn(kSizes));

TEST(Message, IsMatchedByTagInTheOrderOfPosting) {
  Pair pair;
  std::vector<std::string> sent, got;
  std::deque<SendOp> sends;
  std::deque<ReceiveOp> receives;
  // Small and large messages in turn: a small one must not overtake.
  for (uint64_t i = 0; i < 40; ++i) {
    sent.push_back(Pattern(i % 3 == 0 ? 20000 + i : 10 + i, i));
    got.emplace_back(30000, '#');
  }
  for (uint64_t i = 0; i < 40; ++i) sends.emplace_back(pair.a, *pair.b_of_a, i % 2, sent[i]).Post();
  for (uint64_t i = 0; i < 40; ++i) {
    receives.emplace_back(pair.b, i % 3 == 0 ? nullptr : pair.a_of_b, i % 2, BytesOf(got[i])).Post();
    if (i == 20) pair.world.world.RunFor(10 * kMillisecondNs);
  }
  for (uint64_t i = 0; i < 40; ++i) {
    ASSERT_TRUE(pair.world.Ends(receives[i])) << i;
    EXPECT_TRUE(pair.world.Ends(sends[i])) << i;
    EXPECT_TRUE(got[i].substr(0, receives[i].bytes) == sent[i]) << i;
  }
}

// How long a large message takes to a receive that is posted so much later than it, or earlier, over a path that takes
// 10 ms each way. With 200,000 bytes it is never pushed.
int64_t TimeOfLarge(int64_t receive_later_ns, size_t bytes = 200000) {
  transport::LoopbackFaults faults;
  faults.latency_ns_min = faults.latency_ns_max = 10 * kMillisecondNs;
  Pair pair(1, faults);
  const std::string sent = Pattern(bytes, 1);
  std::string got(sent.size(), '#');
  for (int i = 0; i < 2; ++i) {
    ReceiveOp receive(pair.b, pair.a_of_b, 5, BytesOf(got));
    SendOp send(pair.a, *pair.b_of_a, 5, sent);
    if (receive_later_ns < 0) {
      receive.Post();
      pair.world.world.RunFor(-receive_later_ns);
    }
    const int64_t start_ns = pair.world.world.clock()->NowNs();
    send.Post();
    if (receive_later_ns >= 0) {
      pair.world.world.RunFor(receive_later_ns);
      receive.Post();
    }
    EXPECT_TRUE(pair.world.Ends(receive));
    const int64_t took_ns = pair.world.world.clock()->NowNs() - start_ns;
    EXPECT_TRUE(pair.world.Ends(send));
    EXPECT_TRUE(receive.status().ok() && send.status().ok());
    EXPECT_EQ(got, sent);
    pair.world.world.RunFor(100 * kMillisecondNs);  // until credit has come back
    if (i == 1) return took_ns;                     // the first time, the pipe gets its credit
  }
  return 0;
}

TEST(Message, LargeOnesNeedNoRequestWhereTheNoticeOfAReceiveComes) {
  EXPECT_EQ(TimeOfLarge(-20 * kMillisecondNs), 10 * kMillisecondNs);  // the offer names the receive
  EXPECT_EQ(TimeOfLarge(-20 * kMillisecondNs, 100000), 10 * kMillisecondNs);
  EXPECT_EQ(TimeOfLarge(0), 20 * kMillisecondNs);  // the two cross
  EXPECT_EQ(TimeOfLarge(5 * kMillisecondNs), 25 * kMillisecondNs);
  EXPECT_EQ(TimeOfLarge(15 * kMillisecondNs), 35 * kMillisecondNs);  // the offer was there first: a request
}

// The receives of b were posted before the messages of a came: the next bodies go with their offers.
void Trust(Pair* pair) {
  std::string sent = Pattern(100000, 9), got(100000, '#');
  for (int i = 0; i < 3; ++i) {
    ReceiveOp receive(pair->b, nullptr, 99, BytesOf(got));
    SendOp send(pair->a, *pair->b_of_a, 99, sent);
    receive.Post();
    send.Post();
    ASSERT_TRUE(pair->world.Ends(send));
    ASSERT_TRUE(pair->world.Ends(receive));
    EXPECT_TRUE(got == sent);
  }
  pair->world.world.RunFor(50 * kMillisecondNs);  // until credit has come back
}

TEST(Message, LargeOnesNeedNoRoundTripWhereReceivesHaveWaited) {
  transport::LoopbackFaults faults;
  faults.latency_ns_min = faults.latency_ns_max = 10 * kMillisecondNs;
  Pair pair(1, faults);
  Trust(&pair);
  std::string sent = Pattern(100000, 1), got(100000, '#');
  ReceiveOp receive(pair.b, pair.a_of_b, 5, BytesOf(got));
  SendOp send(pair.a, *pair.b_of_a, 5, sent);
  int64_t start_ns = pair.world.world.clock()->NowNs();
  send.Post();
  receive.Post();
  EXPECT_TRUE(pair.world.Ends(receive));
  EXPECT_LT(pair.world.world.clock()->NowNs() - start_ns, 20 * kMillisecondNs);
  EXPECT_TRUE(pair.world.Ends(send));
  EXPECT_TRUE(got == sent);
}

TEST(Message, ARejectedBodyIsSentAgainOrGivenUp) {
  for (bool given_up : {false, true}) {
    Pair pair(5, Splitting());
    Trust(&pair);
    std::string sent = Pattern(100000, 1), other = Pattern(50000, 2), got(100000, '#');
    SendOp send(pair.a, *pair.b_of_a, 5, sent);
    send.Post();
    pair.world.world.RunFor(50 * kMillisecondNs);
    EXPECT_FALSE(send.Test());
    if (given_up) {
      send.Cancel();
      ASSERT_TRUE(pair.world.Finish({&send}));
      EXPECT_EQ(send.status().code(), Code::kCancelled);
    }
    ReceiveOp receive(pair.b, pair.a_of_b, 5, BytesOf(got));
    receive.Post();
    SendOp next(pair.a, *pair.b_of_a, 5, other);
    if (given_up) next.Post();
    ASSERT_TRUE(pair.world.Ends(receive));
    EXPECT_TRUE(got.substr(0, receive.bytes) == (given_up ? other : sent));
    EXPECT_TRUE(pair.world.Ends(given_up ? next : send));
  }
}

TEST(Message, ThatIsTooLargeIsAnErrorOnBothSidesAndNoMore) {
  for (size_t size : {100, 5000, 100000, 100001}) {
    for (bool posted : {true, false}) {
      Pair pair;
      if (size == 100001) Trust(&pair);
      std::string sent = Pattern(size, 1), got(size - 1, '#');
      ReceiveOp receive(pair.b, pair.a_of_b, 5, BytesOf(got));
      SendOp send(pair.a, *pair.b_of_a, 5, sent);
      send.confirm = true;
      if (posted) receive.Post();
      pair.world.world.RunFor(10 * kMillisecondNs);
      send.Post();
      pair.world.world.RunFor(10 * kMillisecondNs);
      if (!posted) receive.Post();
      ASSERT_TRUE(pair.world.Finish({&send, &receive}));
      EXPECT_EQ(receive.status().code(), Code::kInvalid) << receive.status().ToString();
      EXPECT_EQ(send.status().code(), Code::kInvalid) << send.status().ToString();
      EXPECT_THAT(send.status().ToString(), HasSubstr("for a landing of " + std::to_string(size - 1)));
      EXPECT_EQ(got, std::string(size - 1, '#'));
      // The connection stays.
      std::string more = "more", there(4, '#');
      ReceiveOp next(pair.b, pair.a_of_b, 5, BytesOf(there));
      SendOp again(pair.a, *pair.b_of_a, 5, more);
      next.Post();
      again.Post();
      ASSERT_TRUE(pair.world.Ends(next));
      EXPECT_EQ(there, "more");
      EXPECT_EQ(pair.world.tasks["a"].Count(PeerEvent::kDown), 0);
    }
  }
}

TEST(Message, UnaskedSmallOnesAreBoundedAndTheRestWaitsAtTheSender) {
  Limits limits;
  limits.unexpected_bytes_max = 4096;
  limits.offers_max = 5;
  Pair pair(3, {}, limits);
  std::deque<SendOp> sends;
  std::vector<std::string> sent;
  for (uint64_t i = 0; i < 100; ++i) sent.push_back(Pattern(500, i));
  for (uint64_t i = 0; i < 100; ++i) sends.emplace_back(pair.a, *pair.b_of_a, 9, sent[i]).Post();
  pair.world.world.RunFor(kSecondNs);
  auto left = std::count_if(sends.begin(), sends.end(), [](const SendOp& send) { return send.Test(); });
  EXPECT_EQ(left, 4096 / 564);
  std::string got(500, '#');
  for (uint64_t i = 0; i < 100; ++i) {
    ReceiveOp receive(pair.b, pair.a_of_b, 9, BytesOf(got));
    receive.Post();
    ASSERT_TRUE(pair.world.Ends(receive)) << i;
    EXPECT_TRUE(got == sent[i]) << i;
  }
  for (SendOp& send : sends) EXPECT_TRUE(pair.world.Ends(send));
}

TEST(Message, DeadlinesEndBothSides) {
  Pair pair;
  std::string sent = Pattern(100000, 1), got(100000, '#');
  SendOp send(pair.a, *pair.b_of_a, 5, sent);
  send.timeout_ns = 50 * kMillisecondNs;
  send.Post();
  ReceiveOp receive(pair.b, pair.a_of_b, 6, BytesOf(got));
  receive.timeout_ns = 70 * kMillisecondNs;
  receive.Post();
  ASSERT_TRUE(pair.world.Finish({&send, &receive}));
  EXPECT_EQ(send.status().code(), Code::kTimeout) << send.status().ToString();
  EXPECT_EQ(receive.status().code(), Code::kTimeout) << receive.status().ToString();
  EXPECT_THAT(receive.status().ToString(), HasSubstr("receiving with tag 6"));
  // The offer is withdrawn: the next message with this tag comes first.
  std::string other = Pattern(100000, 2);
  SendOp next(pair.a, *pair.b_of_a, 5, other);
  next.Post();
  ReceiveOp there(pair.b, pair.a_of_b, 5, BytesOf(got));
  there.Post();
  ASSERT_TRUE(pair.world.Ends(there));
  EXPECT_TRUE(got == other);
  EXPECT_TRUE(pair.world.Ends(next));
}

TEST(Message, CancelledReceivesLeaveTheirMessageToTheNext) {
  for (size_t size : {100, 100000}) {
    Pair pair;
    std::string sent = Pattern(size, 1), first(size, '#'), second(size, '#');
    ReceiveOp one(pair.b, pair.a_of_b, 5, BytesOf(first)), other(pair.b, pair.a_of_b, 5, BytesOf(second));
    one.Post();
    pair.world.world.RunFor(10 * kMillisecondNs);
    SendOp send(pair.a, *pair.b_of_a, 5, sent);
    send.Post();
    one.Cancel();
    other.Post();
    ASSERT_TRUE(pair.world.Finish({&one}));
    EXPECT_EQ(one.status().code(), Code::kCancelled);
    ASSERT_TRUE(pair.world.Ends(other));
    EXPECT_TRUE(pair.world.Ends(send));
    EXPECT_TRUE(second == sent);
    EXPECT_EQ(first, std::string(size, '#'));
  }
}

TEST(Message, CancelInTheMiddleOfABodyFreesTheLanding) {
  transport::LoopbackFaults slow;
  slow.bytes_per_second = 10 << 20;
  Pair pair(1, slow);
  std::string sent = Pattern(4 << 20, 1), got(4 << 20, '#');
  ReceiveOp receive(pair.b, pair.a_of_b, 5, BytesOf(got));
  SendOp send(pair.a, *pair.b_of_a, 5, sent);
  receive.Post();
  send.Post();
  ASSERT_TRUE(pair.world.RunUntil([&] { return got[1 << 20] != '#'; }));
  receive.Cancel();
  ASSERT_TRUE(pair.world.Finish({&receive}));
  std::string before = got;
  ASSERT_TRUE(pair.world.Finish({&send}));
  EXPECT_EQ(send.status().code(), Code::kCancelled) << send.status().ToString();
  pair.world.world.RunFor(kSecondNs);
  EXPECT_TRUE(got == before) << "memory was touched after the end";
  EXPECT_TRUE(pair.b_of_a->up());
}

TEST(Message, WhatIsOverALimitIsAnErrorThatNamesIt) {
  P2pWorld world;
  pipe::Options narrow;
  narrow.limits.body_bytes_max = 100000;
  narrow.limits.segments_max = 3;
  Endpoint& a = world.Add("a", Limits(), narrow);
  Endpoint& b = world.Add("b");
  Peer& b_of_a = world.Connect("a", "b");
  Peer& a_of_b = world.Expect("b", "a");
  std::string large(100001, 'x'), head(4097, 'h'), small = "small";
  auto region = Region::Open(b, Buffer::Wrap(BytesOf(large), nullptr, nullptr)).value();
  SendOp long_body(a, b_of_a, 5, large), long_head(a, b_of_a, 5, small), many(a, b_of_a, 5, small),
      to_narrow(b, a_of_b, 6, large);
  long_head.head = head;
  many.segments.assign(4, small);
  GetOp get(a, b_of_a, region->ref(), 0, BytesOf(large));
  const std::pair<Op*, const char*> cases[] = {
      {&long_body, "bytes of the message: 100001, body_bytes_max is 100000, peer b"},
      {&long_head, "bytes of the head: 4097, the limit is 4096"},
      {&many, "segments of the message: 4, segments_max is 3"},
      {&to_narrow, "a message of 100001 bytes, body_bytes_max of the receiver is 100000"},
      {&get, "a get of 100001 bytes, body_bytes_max is 100000"},
  };
  for (const auto& [op, words] : cases) {
    op->Post();
    ASSERT_TRUE(world.Finish({op})) << words;
    EXPECT_EQ(op->status().code(), Code::kInvalid) << op->status().ToString();
    EXPECT_THAT(op->status().ToString(), HasSubstr(words));
  }
  EXPECT_THAT(get.status().ToString(),
              HasSubstr("while reading at offset 0 of region " + std::to_string(get.region.id)));
  EXPECT_TRUE(b_of_a.up());
}

TEST(Message, HandlersOfOffersLandDeferOrRefuse) {
  Pair pair;
  std::string small = "small", large = Pattern(50000, 1), got(50000, '#'), kept(50000, '#');
  ReceiveOp into(pair.b, nullptr, 0, BytesOf(got));
  std::vector<uint64_t> offered;
  pair.b.HandleOffers(10, 19, [&](const Offer& offer) {
    offered.push_back(offer.bytes);
    if (offer.tag == 10) return OfferAnswer::Take(&into);
    if (offer.tag == 11) return OfferAnswer::Defer();
    return OfferAnswer::Refuse(Status::Application(4, "not today"));
  });
  SendOp taken(pair.a, *pair.b_of_a, 10, large), deferred(pair.a, *pair.b_of_a, 11, large),
      refused(pair.a, *pair.b_of_a, 12, small), other(pair.a, *pair.b_of_a, 20, small);
  refused.confirm = true;
  for (SendOp* send : {&taken, &deferred, &refused, &other}) send->Post();
  ASSERT_TRUE(pair.world.Finish({&taken, &refused, &other, &into}));
  EXPECT_TRUE(taken.status().ok()) << taken.status().ToString();
  EXPECT_TRUE(got == large);
  EXPECT_EQ(refused.status().code(), Code::kApplication);
  EXPECT_EQ(refused.status().app_code(), 4u);
  EXPECT_EQ(offered, (std::vector<uint64_t>{50000, 50000, 5}));
  EXPECT_FALSE(deferred.Test());
  ReceiveOp later(pair.b, pair.a_of_b, 11, BytesOf(kept));
  later.Post();
  ASSERT_TRUE(pair.world.Ends(later));
  EXPECT_TRUE(kept == large);
  EXPECT_TRUE(pair.world.Ends(deferred));
}

TEST(Message, OperationsArePostedAgainAndAgain) {
  Pair pair;
  std::string sent = Pattern(300, 1), got(300, '#');
  SendOp send(pair.a, *pair.b_of_a, 5, sent);
  ReceiveOp receive(pair.b, pair.a_of_b, 5, BytesOf(got));
  int rounds = 0;
  receive.then = [&] {
    EXPECT_TRUE(receive.status().ok());
    if (++rounds < 100) receive.Post();
  };
  receive.Post();
  for (int i = 0; i < 100; ++i) {
    sent[0] = static_cast<char>(i);
    send.Post();
    ASSERT_TRUE(pair.world.Ends(send));
    ASSERT_TRUE(pair.world.RunUntil([&] { return rounds == i + 1; }));
    EXPECT_EQ(got[0], static_cast<char>(i));
  }
}

TEST(Message, PartsAreGatheredAndScattered) {
  Pair pair(5, Splitting());
  for (size_t scale : {1, 100, 10000}) {
    std::string x = Pattern(3 * scale, 1), y = Pattern(7 * scale, 2), one(2 * scale, '#'), other(9 * scale, '#');
    SendOp send(pair.a, *pair.b_of_a, 5, x);
    send.segments.push_back(ConstBytes());
    send.segments.push_back(y);
    ReceiveOp receive(pair.b, pair.a_of_b, 5, BytesOf(one));
    receive.segments.push_back(BytesOf(other));
    send.Post();
    receive.Post();
    ASSERT_TRUE(pair.world.Ends(receive));
    EXPECT_TRUE(pair.world.Ends(send));
    EXPECT_TRUE((one + other).substr(0, 10 * scale) == x + y) << scale;
    EXPECT_EQ(receive.bytes, 10 * scale);
  }
}

}  // namespace
}  // namespace fusewire::p2p
