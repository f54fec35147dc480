// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// How a client ends, and how one gives up its peer.
#include "fusewire/rpc/client.h"

#include <gtest/gtest.h>

#include <utility>

#include "fusewire/rpc/world_test.h"

namespace fusewire::rpc {
namespace {

TEST(ClientEnd, CloseEndsEveryCallAndRefusesNewOnes) {
  RpcWorld world;
  ProbeCall held(kHold), bulky(kEcho), late(kEcho);
  bulky.body = PatternSegments({8000000}, 1);
  world.client->Start(&held);
  world.client->Start(&bulky);
  ASSERT_TRUE(world.RunUntil([&] { return world.held.size() == 1; }));
  world.client->Close();
  EXPECT_EQ(held.dones, 1);
  EXPECT_EQ(bulky.dones, 1);
  EXPECT_EQ(held.status.code(), Code::kCancelled);
  EXPECT_EQ(held.status.cause(), "the client was closed");
  world.client->Start(&late);
  ASSERT_TRUE(world.Finish(late));
  EXPECT_EQ(late.status.code(), Code::kCancelled);
  world.client->Close();
  ASSERT_TRUE(world.RunUntil([&] { return world.held[0].unwanted; }, kSecondNs));
  EXPECT_TRUE(world.IsClean());
}

TEST(ClientEnd, AClosedClientStaysClosed) {
  RpcWorld world;
  world.client->Close();
  world.client->Connect();
  world.world.RunFor(kSecondNs);
  EXPECT_FALSE(world.client->Snapshot().up);
  EXPECT_EQ(world.client->Snapshot().connects, 0u);
}

TEST(ClientEnd, OneThatHasGivenUpMakesNoMoreCalls) {
  WorldOptions options;
  options.client_pipe.backoff_ns_min = options.client_pipe.backoff_ns_max = 2 * kSecondNs;
  options.client.patience_ns = 60 * kSecondNs;
  RpcWorld world(std::move(options));
  ProbeCall held(kHold), waiting(kEcho), late(kEcho);
  world.client->Start(&held);
  ASSERT_TRUE(world.RunUntil([&] { return world.held.size() == 1; }));
  world.client->GiveUp(Status::Unavailable("it is elsewhere"));
  ASSERT_TRUE(world.Ask(&late, kMillisecondNs));
  EXPECT_EQ(late.status.cause(), "it is elsewhere");
  EXPECT_EQ(held.dones, 0);  // it was sent
  world.KillServer(transport::LoopbackDeath::kReset);
  ASSERT_TRUE(world.Finish(held));
  EXPECT_EQ(held.status.code(), Code::kUnavailable);
  // One that waits for a connection does not wait any longer.
  Client nowhere(*world.client_task, {"nowhere", 1}, {});
  nowhere.Start(&waiting);
  world.world.RunFor(10 * kMillisecondNs);
  EXPECT_EQ(waiting.dones, 0);
  nowhere.GiveUp(Status::Unavailable("it is elsewhere"));
  nowhere.GiveUp(Status::Unavailable("again"));
  ASSERT_TRUE(world.Finish(waiting));
  EXPECT_EQ(waiting.status.cause(), "it is elsewhere");
}

TEST(ClientEnd, ADestroyedClientEndsItsCallsFirst) {
  RpcWorld world;
  ProbeCall waiting(kEcho), held(kHold);
  Client nowhere(*world.client_task, {"nowhere", 1});
  nowhere.Start(&waiting);
  world.client->Start(&held);
  ASSERT_TRUE(world.RunUntil([&] { return world.held.size() == 1; }));
  world.client.reset();
  EXPECT_EQ(held.status.code(), Code::kCancelled);
  EXPECT_EQ(held.dones, 1);
  EXPECT_EQ(waiting.dones, 0);
  nowhere.Close();
  EXPECT_EQ(waiting.status.code(), Code::kCancelled);
  ASSERT_TRUE(world.RunUntil([&] { return world.held[0].unwanted; }, kSecondNs));
}

}  // namespace
}  // namespace fusewire::rpc
