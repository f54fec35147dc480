// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/peer/whereabouts.h"

#include <string>
#include <utility>
#include <vector>

#include "fusewire/tf/bridge/threads_test.h"
#include "fusewire/tf/peer/knowing_test.h"
#include "fusewire/tf/peer/world_test.h"

#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

Whereabout Place(const std::string& task, uint64_t epoch) {
  return {task, "host:" + std::to_string(1000 + epoch), epoch, 7, epoch};
}

TEST(WhereaboutsTest, OfEachTaskTheHighestEpochHolds) {
  Whereabouts known;
  Whereabout found;
  EXPECT_FALSE(known.Find("ps:0", &found));
  EXPECT_FALSE(known.Learn(Place("ps:0", 0)));
  EXPECT_TRUE(known.All().empty());  // others could not read a place without an address
  EXPECT_TRUE(known.Learn(Place("ps:0", 2)));
  EXPECT_FALSE(known.Learn(Place("ps:0", 1)));
  Whereabout same = Place("ps:0", 2);
  same.address = "other:1";
  EXPECT_FALSE(known.Learn(same));
  EXPECT_TRUE(known.Learn(Place("ps:1", 1)));
  ASSERT_TRUE(known.Find("ps:0", &found));
  EXPECT_EQ(found.address, "host:1002");
  EXPECT_EQ(known.All().size(), 2u);
}

TEST(WhereaboutsTest, TakeNoMoreTasksThanComeTogether) {
  Whereabouts known;
  for (size_t i = 0; i < kWhereaboutsMax + 10; ++i) known.Learn(Place("ps:" + std::to_string(i), 1));
  EXPECT_EQ(known.All().size(), kWhereaboutsMax);
  EXPECT_TRUE(known.Learn(Place("ps:0", 2)));
}

class ExchangeTest : public testing::Test {
 protected:
  const WhereaboutsPtr theirs_ = std::make_shared<Whereabouts>(), ours_ = std::make_shared<Whereabouts>();
  DataWorld world_{true, [this](reactor::Pool&) {
                     std::vector<rpc::Method> methods;
                     methods.push_back(ExchangeMethod(theirs_));
                     return methods;
                   }};
  ChannelPtr channel_ = world_.MakeChannel();
};

TEST_F(ExchangeTest, BothLearnWhatTheOtherKnows) {
  theirs_->Learn(Place("ps:0", 2));
  theirs_->Learn(Place("ps:1", 1));
  ours_->Learn(Place("ps:1", 3));
  int ends = 0;
  Exchange(channel_, ours_, [&ends] { ++ends; });
  ASSERT_TRUE(world_.RunUntil([&ends] { return ends > 0; }));
  for (const WhereaboutsPtr& known : {theirs_, ours_}) {
    Whereabout found;
    ASSERT_TRUE(known->Find("ps:0", &found));
    EXPECT_EQ(found.epoch, 2u);
    ASSERT_TRUE(known->Find("ps:1", &found));
    EXPECT_EQ(found.address, "host:1003");
  }
}

TEST_F(ExchangeTest, EndsWithoutThePeer) {
  world_.KillPeer();
  int ends = 0;
  Exchange(channel_, ours_, [&ends] { ++ends; });
  EXPECT_TRUE(world_.RunUntil([&ends] { return ends > 0; }));
  EXPECT_TRUE(ours_->All().empty());
}

class ScoutTest : public testing::Test {
 protected:
  ScoutPtr Begin(uint64_t after_epoch) {
    Scout::Options options;
    options.task = "ps:3";
    options.after_epoch = after_epoch;
    options.every_us = 1000;
    options.known = ours_;
    options.other = [this](uint64_t turn) -> ChannelPtr {
      turns_.Add();
      return turn % 2 == 0 ? nullptr : channel_;
    };
    options.found = [this] { ends_.Add(); };
    auto scout = std::make_shared<Scout>(std::move(options));
    scout->Begin();
    return scout;
  }

  KnowingServer server_;
  const WhereaboutsPtr ours_ = std::make_shared<Whereabouts>();
  const ChannelPtr channel_ = server_.MakeChannel();
  Ends turns_, ends_;
};

TEST_F(ScoutTest, AsksOneAfterTheOtherUntilOneKnows) {
  server_.known->Learn(Place("ps:3", 2));
  const ScoutPtr scout = Begin(/*after_epoch=*/2);
  ASSERT_TRUE(turns_.Await(5));
  EXPECT_EQ(ends_.count(), 0);
  server_.known->Learn(Place("ps:3", 3));
  ASSERT_TRUE(ends_.Await(1));
  EXPECT_EQ(ends_.count(), 1);
  EXPECT_FALSE(scout->Stop());
  Whereabout found;
  ASSERT_TRUE(ours_->Find("ps:3", &found));
  EXPECT_EQ(found.epoch, 3u);
}

TEST_F(ScoutTest, WhatIsKnownAlreadyIsFoundAtOnce) {
  ours_->Learn(Place("ps:3", 1));
  const ScoutPtr scout = Begin(0);
  ASSERT_TRUE(ends_.Await(1));
  EXPECT_EQ(ends_.count(), 1);
  EXPECT_EQ(turns_.count(), 0);
}

TEST_F(ScoutTest, StoppedItFindsNothing) {
  const ScoutPtr stopped = Begin(0);
  EXPECT_TRUE(stopped->Stop());
  server_.known->Learn(Place("ps:3", 1));
  const ScoutPtr other = Begin(0);
  ASSERT_TRUE(ends_.Await(1));
  EXPECT_FALSE(other->Stop());
  EXPECT_EQ(ends_.count(), 1);
}

TEST_F(ScoutTest, ItAsksWhichServerHasATask) {
  const Whereabout said{"ps:3", server_.address().ToString(), 1, 7, 4};
  Whereabouts known;
  EXPECT_FALSE(HasTask(server_.ours(), said, 10 * kSecondNs, known));  // it says nothing of it
  server_.known->Learn({"ps:3", "host:1", 9, 7, 5});
  EXPECT_FALSE(HasTask(server_.ours(), said, 10 * kSecondNs, known));  // another one has it
  Whereabout found;
  EXPECT_FALSE(known.Find("ps:3", &found));
  server_.known->Learn({"ps:3", said.address, 1, 7, 6});
  EXPECT_TRUE(HasTask(server_.ours(), said, 10 * kSecondNs, known));
  EXPECT_TRUE(known.Find("ps:3", &found));
  EXPECT_FALSE(HasTask(server_.ours(), {"ps:3", "nowhere", 1, 7, 6}, 10 * kSecondNs, known));
}

TEST_F(ScoutTest, ATaskMayEndOnceItHasAsked) {
  const Whereabout said{"ps:3", server_.address().ToString(), 1, 7, 4};
  for (int i = 0; i < 50; ++i) {
    task::TaskOptions options;
    options.pipe.name = "worker";
    options.pipe.incarnation = 10 + i;
    options.pool.reactors = 1;
    auto task = task::Task::Start(std::move(options));
    ASSERT_TRUE(task.ok()) << task.status().ToString();
    Whereabouts known;
    EXPECT_FALSE(HasTask(*task.value(), said, 10 * kSecondNs, known));
  }
}

}  // namespace
}  // namespace fusewire::tf
