// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A bad network between two live tasks: bytes and frames that are flipped, lost, doubled, exchanged, repeated, forged
// or cut off, at places that a seed draws. Whatever happens: every call ends once, in time, with the right bytes or
// with a typed error, and a connection without faults goes on.
#include <algorithm>
#include <map>

#include "fault_proxy.h"
#include "faults.h"
#include "fusewire/base/random.h"

namespace fusewire::faults {
namespace {

constexpr int kSeeds = 52;  // four for each kind of fault
constexpr int kCallsPerRound = 40;
constexpr int64_t kDeadlineNs = Within(1 * kSecondNs);

// One client behind a proxy of its own, whose first connection has a fault.
struct Case {
  Case(uint64_t seed_in, const Plan& plan_in, Way way_in) : seed(seed_in), plan(plan_in), way(way_in) {}
  std::string words() const {
    return "seed " + std::to_string(seed) + ": " + FaultName(plan.fault) + " at " + std::to_string(plan.at) + " of " +
           std::to_string(plan.bytes) + (way == kUp ? " on the way up" : " on the way down");
  }
  const uint64_t seed;
  const Plan plan;
  const Way way;
  std::unique_ptr<FaultProxy> proxy;
  rpc::Client* client = nullptr;
  Calls calls;
};

// Somewhere in the first bytes_max bytes of the stream.
Plan DrawPlan(Random* random, Fault fault, uint64_t bytes_max) {
  Plan plan;
  plan.fault = fault;
  plan.bytes = random->Between(1, std::min<uint64_t>(64, bytes_max / 8));
  plan.at = random->Below(IsOfFrames(fault) ? 60 : bytes_max - plan.bytes);
  plan.bit = static_cast<int>(random->Below(8));
  return plan;
}

class Mangled : public Faults {
 protected:
  void Add(uint64_t seed, Random* random, const PeerProcess& peer, Fault fault, uint64_t bytes_max) {
    Plan plan = DrawPlan(random, fault, bytes_max);
    Case& one = cases_.emplace_back(seed, plan, random->Chance(0.5) ? kUp : kDown);
    one.proxy = std::make_unique<FaultProxy>(peer.address(), [plan, way = one.way](int connection, Way of) {
      return connection == 0 && of == way ? plan : Plan();
    });
    one.client = &ClientOf(one.proxy->address());
  }
  // Three times some calls on every client, the next when those before have ended.
  void Ask(bool with_bodies) {
    for (int round = 0; round < 3; ++round) {
      for (Case& one : cases_) {
        Random random(one.seed * 1000 + static_cast<uint64_t>(round));
        for (int i = 0; i < kCallsPerRound; ++i) Start(&one, &random, with_bodies);
      }
      for (Case& one : cases_) ASSERT_TRUE(one.calls.AllDone(kDeadlineNs + kPatienceNs)) << one.words();
    }
  }
  void ExpectTypedEnds() {
    for (Case& one : cases_) {
      for (TimedCall& call : one.calls.all()) {
        EXPECT_EQ(call.dones, 1) << one.words();
        EXPECT_TRUE(call.status.ok() || IsTyped(call.status)) << one.words() << ": " << call.status.ToString();
        codes_[call.status.code()] += 1;
      }
      // The second connection has no fault, and the link finds it by itself.
      EXPECT_TRUE(Works(*one.client)) << one.words();
      struck_ += one.proxy->struck();
    }
  }

  std::deque<Case> cases_;
  std::map<Code, int> codes_;
  int struck_ = 0;

 private:
  static void Start(Case* one, Random* random, bool with_bodies) {
    std::string head(random->Below(200), 'x');
    for (char& letter : head) letter = static_cast<char>('a' + random->Below(26));
    Buffers body;
    if (with_bodies) {
      body.push_back(Buffer::TryAllocate(random->Between(1, 2000)));
      for (size_t i = 0; i < body[0].size(); ++i) body[0].bytes().data[i] = static_cast<uint8_t>(i * 31 + head.size());
    }
    one->calls.Start(*one->client, kEcho, std::move(head), kDeadlineNs, std::move(body));
  }
};

// Bytes that the check of a frame covers (all but bodies, see docs/wire.md) are never delivered wrong.
TEST_F(Mangled, HeadsComeRightOrNotAtAll) {
  PeerProcess peer("silent_ms=2000");
  ASSERT_TRUE(peer.ready()) << peer.first_words();
  options_.pipe.silent_ns_max = Within(1 * kSecondNs);
  options_.pipe.hello_ns_max = Within(500 * kMillisecondNs);
  rpc::Client& direct = ClientOf(peer.address());
  TimedCall& held = calls_.Start(direct, kHold);
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Random random(seed);
    Add(seed, &random, peer, static_cast<Fault>(seed % (kFaultMax + 1)), 10000);
  }
  int64_t own_before = OwnRssBytes(), peer_before = peer.RssBytes();
  Ask(false);
  ExpectTypedEnds();
  for (Case& one : cases_) {
    for (TimedCall& call : one.calls.all()) {
      EXPECT_TRUE(!call.status.ok() || call.reply_head == call.request_head) << one.words();
    }
  }
  EXPECT_GT(struck_, kSeeds / 2);  // the faults came to pass
  EXPECT_GT(codes_[Code::kCorrupt], 0);
  EXPECT_GT(codes_[Code::kUnavailable], 0);
  EXPECT_GT(codes_[Code::kOk], 0);
  // Nobody else has noticed.
  EXPECT_EQ(held.dones, 0);
  EXPECT_TRUE(Works(direct));
  EXPECT_EQ(direct.Snapshot().connects, 1u);
  ExpectGrowth(OwnRssBytes() - own_before, 64 << 20);
  ExpectGrowth(peer.RssBytes() - peer_before, 64 << 20);
}

// Bodies are TCP's to protect: bits may differ where a proxy flips them, but calls end, and a stream that is cut off
// never looks whole.
TEST_F(Mangled, BodiesThatAreCutOffNeverLookWhole) {
  PeerProcess peer("silent_ms=2000");
  ASSERT_TRUE(peer.ready()) << peer.first_words();
  options_.pipe.silent_ns_max = Within(1 * kSecondNs);
  options_.pipe.hello_ns_max = Within(500 * kMillisecondNs);
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Random random(seed + 1000);
    Add(seed, &random, peer, static_cast<Fault>(seed % (kFaultMax + 1)), 100000);
  }
  Ask(true);
  ExpectTypedEnds();
  for (Case& one : cases_) {
    Fault fault = one.plan.fault;
    if (fault != Fault::kNone && fault != Fault::kCut && fault != Fault::kReset && !IsOfFrames(fault)) continue;
    for (TimedCall& call : one.calls.all()) {
      if (!call.status.ok()) continue;
      EXPECT_EQ(call.reply_head, call.request_head) << one.words();
      ASSERT_EQ(call.reply_body.size(), 1u) << one.words();
      Bytes body = call.reply_body[0].bytes();
      size_t wrong = 0;
      for (size_t i = 0; i < body.size; ++i) wrong += body.data[i] != static_cast<uint8_t>(i * 31 + call.head.size);
      EXPECT_EQ(wrong, 0u) << one.words();
    }
  }
  EXPECT_GT(struck_, kSeeds / 3);
}

// With a secret the proofs cover the whole greeting: a connection whose greeting was touched never comes up.
TEST_F(Mangled, AGreetingThatWasTouchedNeverComesUp) {
  PeerProcess peer("name=ps:0 secret=mellon-mellon-mellon hello_ms=500");
  ASSERT_TRUE(peer.ready()) << peer.first_words();
  options_.pipe.name = "worker:0";
  options_.pipe.secret = "mellon-mellon-mellon";
  options_.pipe.hello_ns_max = Within(500 * kMillisecondNs);
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Random random(seed + 2000);
    Fault fault = static_cast<Fault>(1 + seed % static_cast<uint64_t>(Fault::kReset));
    Add(seed, &random, peer, fault, 90);  // a hello without its names is 80 bytes long
  }
  for (Case& one : cases_) one.calls.Start(*one.client, kEcho, "hello", kPatienceNs);
  for (Case& one : cases_) ASSERT_TRUE(one.calls.AllDone()) << one.words();
  for (Case& one : cases_) {
    const Status& status = one.calls.all()[0].status;
    EXPECT_EQ(one.proxy->struck(), 1) << one.words();
    // A refusal ends the call; after anything else the next attempt has a clean connection.
    EXPECT_TRUE(status.ok() || (status.code() == Code::kRefused && IsTyped(status)))
        << one.words() << ": " << status.ToString();
    EXPECT_TRUE(Works(*one.client)) << one.words();
    EXPECT_EQ(one.client->Snapshot().connects, 1u) << one.words();
  }
  Numbers stats = peer.AskNumbers("stats");
  EXPECT_EQ(stats["superseded"], 0);
  EXPECT_EQ(stats["open"], kSeeds);
}

}  // namespace
}  // namespace fusewire::faults
