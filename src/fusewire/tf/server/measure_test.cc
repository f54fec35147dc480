// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/inquiry.h"

#include <string>
#include <utility>
#include <vector>

#include "fusewire/tf/peer/world_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

using testing::HasSubstr;

struct Ended {
  int times = 0;
  Status status;
  Measured measured;
};

std::vector<rpc::Method> OnlyEcho(reactor::Pool&) {
  std::vector<rpc::Method> methods;
  methods.push_back(EchoMethod());
  return methods;
}

std::vector<rpc::Method> Echoing(UniqueFunction<void(rpc::Request, rpc::Reply)> handle) {
  std::vector<rpc::Method> methods;
  methods.push_back(EchoMethod());
  methods.back().handle = std::move(handle);
  return methods;
}

void MeasureIn(DataWorld& world, Ended* ended) {
  const ChannelPtr channel = world.MakeChannel();
  Measure(channel, [ended](const Status& status, const Measured& measured) {
    ended->status = status;
    ended->measured = measured;
    ++ended->times;
  });
  EXPECT_TRUE(world.RunUntil([ended] { return ended->times == 1; }));
}

TEST(Measure, TellsRoundTripsAndBandwidth) {
  DataWorld world(true, OnlyEcho);
  Ended ended;
  MeasureIn(world, &ended);
  ASSERT_TRUE(ended.status.ok()) << ended.status.ToString();
  EXPECT_GT(ended.measured.best_round_trip_ns, 0);
  EXPECT_GE(ended.measured.median_round_trip_ns, ended.measured.best_round_trip_ns);
  EXPECT_GT(ended.measured.bytes_per_s, 1u << 20);
  EXPECT_EQ(ended.measured.wire, "loopback");
}

TEST(Measure, OfAPeerWithoutTheMethodFails) {
  DataWorld world;
  Ended ended;
  MeasureIn(world, &ended);
  EXPECT_EQ(ended.status.code(), Code::kInvalid) << ended.status.ToString();
}

TEST(Measure, AnAbsentPeerIsAnError) {
  DataWorld world(false);
  Ended ended;
  MeasureIn(world, &ended);
  EXPECT_EQ(ended.status.code(), Code::kUnavailable) << ended.status.ToString();
}

TEST(Measure, OfAPeerThatAnswersWithOtherSizesFails) {
  DataWorld world(true, [](reactor::Pool&) {
    return Echoing([](const rpc::Request&, rpc::Reply reply) {
      Buffers body;
      body.push_back(Buffer::CopyOf(ConstBytes("too much")));
      reply.Send(Status::Ok(), ConstBytes(), std::move(body));
    });
  });
  Ended ended;
  MeasureIn(world, &ended);
  EXPECT_EQ(ended.status.code(), Code::kCorrupt) << ended.status.ToString();
}

TEST(Measure, OfAPeerThatNeverAnswersEnds) {
  std::vector<rpc::Reply> kept;
  DataWorld world(true, [&kept](reactor::Pool&) {
    return Echoing([&kept](const rpc::Request&, rpc::Reply reply) { kept.push_back(std::move(reply)); });
  });
  Ended ended;
  MeasureIn(world, &ended);
  EXPECT_EQ(ended.status.code(), Code::kTimeout) << ended.status.ToString();
  kept.clear();
}

TEST(Echo, RefusesMalformedAndTooManyNumbers) {
  DataWorld world(true, OnlyEcho);
  ChannelPtr channel = world.MakeChannel();
  for (const std::string& head : {std::string("x"), std::string(8, '\xff')}) {
    bool has_ended = false;
    Status status;
    rpc::SimpleCall call(kEcho, [&](Status ended) {
      status = std::move(ended);
      has_ended = true;
    });
    call.head = ConstBytes(head);
    channel->client().Start(&call);
    ASSERT_TRUE(world.RunUntil([&has_ended] { return has_ended; }));
    EXPECT_EQ(status.code(), Code::kInvalid);
    EXPECT_THAT(status.ToString(), HasSubstr("echo"));
  }
}

}  // namespace
}  // namespace fusewire::tf
