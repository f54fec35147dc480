// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/succession.h"

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "fusewire/tf/bridge/threads_test.h"
#include "fusewire/tf/peer/grpc_test.h"
#include "fusewire/tf/peer/knowing_test.h"
#include "fusewire/tf/peer/world_test.h"

#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

// The server of ps:3, and another one that knows whereabouts.
class SuccessionTest : public testing::Test {
 protected:
  SuccessionTest() {
    fusewire::tf::Peer::Options options;
    options.target = kPeerTask;
    options.address = "127.0.0.1:2222";
    ways_.peer = std::make_shared<fusewire::tf::Peer>(&server_.ours(), std::move(options));
    ways_.side = std::make_shared<GrpcSide>(cache_, kPeerTask);
    ways_.peer->Route(ways_.side, [](const TfStatus&, const ChannelPtr&) {});
    PortWords words;
    words.port = server_.address().port;
    words.incarnation = words.state = words.epoch = 1;
    cache_->worker().Answer(words);
  }
  static Whereabout Place(uint64_t epoch) { return {"ps:3", "host:4711", 9, 7, epoch}; }

  KnowingServer server_;
  // shared_ptr: as sessions hold it.
  std::shared_ptr<FakeCache> cache_ = std::make_shared<FakeCache>(kPeerTask);
  Ways ways_;
  Succession succession_{"ps:3", std::make_shared<Whereabouts>()};
};

TEST_F(SuccessionTest, TheOthersAreToldWhereItServes) {
  succession_.Serve(Place(4));
  EXPECT_EQ(succession_.place().epoch, 4u);
  succession_.Tell({ways_});
  Whereabout found;
  const int64_t deadline_ns = Clock::Real()->NowNs() + 10 * kSecondNs;
  while (!server_.known->Find("ps:3", &found) && Clock::Real()->NowNs() < deadline_ns) std::this_thread::yield();
  EXPECT_EQ(found.address, "host:4711");
  EXPECT_EQ(found.state, 7u);
}

TEST_F(SuccessionTest, WithoutAnEpochPeersAreNotTold) {
  succession_.Serve(Place(0));
  EXPECT_TRUE(succession_.known()->All().empty());
}

TEST_F(SuccessionTest, AFormerOwnerSaysWhereItsTaskIsOnceAnotherKnows) {
  succession_.Serve(Place(4));
  PortWords said;
  succession_.Yield(5, [this] { return std::vector<Ways>{ways_}; });
  EXPECT_FALSE(succession_.Where(&said));
  server_.known->Learn({"ps:3", "other:99", 10, 7, 5});
  const int64_t deadline_ns = Clock::Real()->NowNs() + 10 * kSecondNs;
  while (!succession_.Where(&said) && Clock::Real()->NowNs() < deadline_ns) std::this_thread::yield();
  EXPECT_EQ(said.epoch, 5u);
  EXPECT_EQ(said.port, 99);
  EXPECT_EQ(said.advertised, "other");
}

TEST_F(SuccessionTest, ItFollowsATaskThatMovesOn) {
  PortWords said;
  succession_.known()->Learn({"ps:3", "other:99", 10, 7, 5});
  succession_.Yield(5, [this] { return std::vector<Ways>{ways_}; });
  ASSERT_TRUE(succession_.Where(&said));
  EXPECT_EQ(said.epoch, 5u);
  server_.known->Learn({"ps:3", "third:98", 11, 7, 6});
  const int64_t deadline_ns = Clock::Real()->NowNs() + 10 * kSecondNs;
  while (said.epoch != 6 && Clock::Real()->NowNs() < deadline_ns) {
    EXPECT_TRUE(succession_.Where(&said));
    std::this_thread::yield();
  }
  EXPECT_EQ(said.port, 98);
}

TEST_F(SuccessionTest, AnOlderAddressIsIgnored) {
  PortWords said;
  succession_.known()->Learn({"ps:3", "other:99", 10, 7, 4});
  succession_.Yield(5, [] { return std::vector<Ways>(); });
  EXPECT_FALSE(succession_.Where(&said));
}

}  // namespace
}  // namespace fusewire::tf
