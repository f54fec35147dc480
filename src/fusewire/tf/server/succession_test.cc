// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/succession.h"

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "fusewire/tf/peer/grpc_test.h"
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
    options.address = "ps:2222";
    ways_.peer = std::make_shared<fusewire::tf::Peer>(world_.worker.get(), std::move(options));
    ways_.side = std::make_shared<GrpcSide>(cache_, kPeerTask);
    ways_.peer->Route(ways_.side, [this](const TfStatus&, ChannelPtr channel) { channel_ = std::move(channel); });
    PortWords words;
    words.port = 5555;
    words.incarnation = world_.incarnation;
    words.state = words.epoch = 1;
    cache_->worker().Answer(words);
  }
  static Whereabout Place(uint64_t epoch) { return {"ps:3", "host:4711", 9, 7, epoch}; }

  const WhereaboutsPtr theirs_ = std::make_shared<Whereabouts>();
  DataWorld world_{true, [this](reactor::Pool&) {
                     std::vector<rpc::Method> methods;
                     methods.push_back(ExchangeMethod(theirs_));
                     return methods;
                   }};
  // shared_ptr: as sessions hold it.
  std::shared_ptr<FakeCache> cache_ = std::make_shared<FakeCache>(kPeerTask);
  ChannelPtr channel_;
  Ways ways_;
  Succession succession_{"ps:3"};
};

TEST_F(SuccessionTest, TheOthersAreToldWhereItServes) {
  succession_.Serve(Place(4));
  EXPECT_EQ(succession_.place().epoch, 4u);
  succession_.Tell({ways_});
  Whereabout found;
  ASSERT_TRUE(world_.RunUntil([&] { return theirs_->Find("ps:3", &found); }));
  EXPECT_EQ(found.address, "host:4711");
  EXPECT_EQ(found.state, 7u);
}

TEST_F(SuccessionTest, WithoutAnEpochNobodyIsTold) {
  succession_.Serve(Place(0));
  EXPECT_TRUE(succession_.known()->All().empty());
}

TEST_F(SuccessionTest, WhoHasLostItsTaskSaysWhereItIsOnceAnotherKnows) {
  succession_.Serve(Place(4));
  std::atomic<uint64_t> epoch{0};
  std::atomic<uint16_t> port{0};
  succession_.Yield(
      5, [this] { return std::vector<Ways>{ways_}; },
      [&](const PortWords& words) {
        port = words.port;
        epoch = words.epoch;
      });
  world_.world.RunFor(kSecondNs);
  EXPECT_EQ(epoch, 0u);
  theirs_->Learn({"ps:3", "other:99", 10, 7, 5});
  ASSERT_TRUE(world_.RunUntilWithThreads([&epoch] { return epoch > 0; }));
  EXPECT_EQ(epoch, 5u);
  EXPECT_EQ(port, 99);
}

}  // namespace
}  // namespace fusewire::tf
