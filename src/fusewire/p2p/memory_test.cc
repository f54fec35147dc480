// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Regions, puts, gets and signals.
#include <gmock/gmock.h>

#include "fusewire/p2p/core.h"
#include "fusewire/p2p/world_test.h"
#include "fusewire/reactor/reactor.h"

namespace fusewire::p2p {
namespace {

using testing::HasSubstr;

struct Pair {
  explicit Pair(uint64_t seed = 1, const transport::LoopbackFaults& faults = {}, Access access = Access::kReadWrite)
      : world(seed, faults), a(world.Add("a")), b(world.Add("b")) {
    b_of_a = &world.Connect("a", "b");
    memory = std::string(1 << 20, '.');
    region = Region::Open(b, Buffer::Wrap(BytesOf(memory), nullptr, nullptr), access).value();
    signal = Signal::Open(b).value();
  }
  ~Pair() {
    region.reset();
    signal.reset();
  }
  P2pWorld world;
  Endpoint& a;
  Endpoint& b;
  Peer* b_of_a;
  std::string memory;
  std::unique_ptr<Region> region;
  std::unique_ptr<Signal> signal;
};

class MemorySizes : public testing::TestWithParam<size_t> {};

TEST_P(MemorySizes, ArePutAndGotAndSignalled) {
  Pair pair(3, Splitting());
  size_t size = GetParam();
  std::string sent = Pattern(size, 1), got(size, '#');
  AwaitOp await(pair.b, *pair.signal, 7);
  await.Post();
  PutOp put(pair.a, *pair.b_of_a, pair.region->ref(), 1000, sent);
  put.signal = pair.signal->ref();
  put.add = 7;
  put.Post();
  ASSERT_TRUE(pair.world.Ends(await));
  EXPECT_TRUE(pair.memory.substr(1000, size) == sent) << "signalled before it was there";
  ASSERT_TRUE(pair.world.Ends(put));
  EXPECT_EQ(pair.signal->value(), 7u);
  EXPECT_EQ(pair.memory.substr(0, 1000), std::string(1000, '.'));
  EXPECT_EQ(pair.memory[1000 + size], '.');
  GetOp get(pair.a, *pair.b_of_a, pair.region->ref(), 1000, BytesOf(got));
  get.Post();
  ASSERT_TRUE(pair.world.Ends(get));
  EXPECT_TRUE(got == sent);
}

INSTANTIATE_TEST_SUITE_P(All, MemorySizes, testing::Values(0, 1, 2048, 2049, 32768, 32769, 300000, (1 << 20) - 1001));

TEST(Memory, WhatIsNotThereIsAnErrorAndNothingIsWritten) {
  Pair pair;
  for (size_t size : {10, 5000, 100000}) {
    std::string sent = Pattern(size, 1), got(size, '#');
    RegionRef good = pair.region->ref();
    struct Case {
      RegionRef ref;
      uint64_t offset;
      SignalRef signal;
      const char* words;
    };
    // The origin trusts the RegionRef; the target checks it.
    const Case cases[] = {
        {{good.id + 1, good.bytes}, 0, 0, "no such region"},
        {{good.id ^ uint64_t{1} << 33, good.bytes}, 0, 0, "no such region"},
        {{good.id, UINT64_MAX}, good.bytes - size + 1, 0, ", which has 1048576"},
        {{good.id, UINT64_MAX}, UINT64_MAX - size, 0, ", which has 1048576"},
        {good, good.bytes - 1, 0, ", which has 1048576"},
        {good, 0, pair.signal->ref() + 1, "no such signal"},
    };
    for (const Case& one : cases) {
      PutOp put(pair.a, *pair.b_of_a, one.ref, one.offset, sent);
      put.signal = one.signal;
      put.Post();
      ASSERT_TRUE(pair.world.Finish({&put}));
      EXPECT_EQ(put.status().code(), Code::kInvalid) << put.status().ToString();
      EXPECT_THAT(put.status().ToString(), HasSubstr(one.words));
      if (one.signal != 0) continue;
      GetOp get(pair.a, *pair.b_of_a, one.ref, one.offset, BytesOf(got));
      get.Post();
      ASSERT_TRUE(pair.world.Finish({&get}));
      EXPECT_EQ(get.status().code(), Code::kInvalid) << get.status().ToString();
      EXPECT_EQ(got, std::string(size, '#'));
    }
  }
  EXPECT_EQ(pair.memory, std::string(1 << 20, '.'));
  EXPECT_EQ(pair.signal->value(), 0u);
  EXPECT_TRUE(pair.b_of_a->up());
}

TEST(Memory, AccessIsKept) {
  std::string bytes(100, 'x');
  for (Access access : {Access::kRead, Access::kWrite}) {
    Pair pair(1, {}, access);
    PutOp put(pair.a, *pair.b_of_a, pair.region->ref(), 0, bytes);
    GetOp get(pair.a, *pair.b_of_a, pair.region->ref(), 0, BytesOf(bytes));
    put.Post();
    get.Post();
    ASSERT_TRUE(pair.world.Finish({&put, &get}));
    EXPECT_EQ(put.status().code(), access == Access::kRead ? Code::kRefused : Code::kOk);
    EXPECT_EQ(get.status().code(), access == Access::kWrite ? Code::kRefused : Code::kOk);
  }
}

TEST(Memory, ARegionThatGoesInTheMiddleOfAPutIsNotTouchedAnyMore) {
  transport::LoopbackFaults slow;
  slow.bytes_per_second = 10 << 20;
  Pair pair(1, slow);
  std::string sent = Pattern(1 << 20, 1);
  PutOp put(pair.a, *pair.b_of_a, pair.region->ref(), 0, sent);
  put.Post();
  ASSERT_TRUE(pair.world.RunUntil([&] { return pair.memory[1 << 18] != '.'; }));
  pair.region.reset();
  std::string before = pair.memory;
  ASSERT_TRUE(pair.world.Finish({&put}));
  EXPECT_EQ(put.status().code(), Code::kInvalid) << put.status().ToString();
  EXPECT_TRUE(pair.memory == before);
}

TEST(Memory, ARegionIsClosedOnce) {
  Pair pair;
  RegionRef ref = pair.region->ref();
  pair.region.reset();
  EXPECT_DEATH(pair.b.home().Run([&] { pair.b.core().regions().Close(ref); }), "state != nullptr");
}

TEST(Memory, IsFreedAfterTheLastReader) {
  transport::LoopbackFaults slow;
  slow.bytes_per_second = 10 << 20;
  P2pWorld world(1, slow);
  Endpoint& a = world.Add("a");
  Endpoint& b = world.Add("b");
  Peer& to_b = world.Connect("a", "b");
  std::string memory = Pattern(1 << 20, 1), got(1 << 20, '#');
  int given_back = 0;
  auto region = Region::Open(b, Buffer::Wrap(BytesOf(memory), &given_back,
                                             [](void* owner, Bytes) { ++*static_cast<int*>(owner); }))
                    .value();
  GetOp get(a, to_b, region->ref(), 0, BytesOf(got));
  get.Post();
  ASSERT_TRUE(world.RunUntil([&] { return got[1 << 18] != '#'; }));
  region.reset();
  EXPECT_EQ(given_back, 0);
  ASSERT_TRUE(world.Ends(get));
  EXPECT_TRUE(got == memory);
  EXPECT_TRUE(world.RunUntil([&] { return given_back == 1; }));
}

TEST(Memory, UnconfirmedPutsEndWhenTheyHaveLeftAndErrorsComeAsEvents) {
  Pair pair;
  std::string sent(10, 'x');
  PutOp put(pair.a, *pair.b_of_a, pair.region->ref(), 0, sent);
  put.confirm = false;
  put.Post();
  ASSERT_TRUE(pair.world.Ends(put));
  ASSERT_TRUE(pair.world.RunUntil([&] { return pair.memory[9] == 'x'; }));
  put.region.id += 1;
  put.Post();
  ASSERT_TRUE(pair.world.Ends(put));
  EXPECT_TRUE(pair.world.RunUntil([&] { return pair.world.tasks["a"].Count(PeerEvent::kRefused) == 1; }));
}

TEST(Memory, SignalsWakeTheWaitsThatTheySatisfy) {
  Pair pair;
  AwaitOp three(pair.b, *pair.signal, 3), five(pair.b, *pair.signal, 5), nine(pair.b, *pair.signal, 9);
  nine.timeout_ns = 50 * kMillisecondNs;
  for (AwaitOp* op : {&five, &three, &nine}) op->Post();
  pair.signal->Add(4);
  ASSERT_TRUE(pair.world.Ends(three));
  EXPECT_FALSE(five.Test());
  PutOp only(pair.a, *pair.b_of_a, RegionRef(), 0);
  only.signal = pair.signal->ref();
  only.Post();
  ASSERT_TRUE(pair.world.Ends(five));
  ASSERT_TRUE(pair.world.Finish({&nine}));
  EXPECT_EQ(nine.status().code(), Code::kTimeout);
  nine.timeout_ns = 0;
  nine.Post();
  pair.signal.reset();
  ASSERT_TRUE(pair.world.Finish({&nine}));
  EXPECT_EQ(nine.status().code(), Code::kCancelled);
  EXPECT_TRUE(pair.world.Finish({&only}));
}

}  // namespace
}  // namespace fusewire::p2p
