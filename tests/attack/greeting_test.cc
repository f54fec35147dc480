// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Connections that have not proved that they belong to the cluster.
#include <memory>
#include <utility>

#include "fusewire/rpc/rpc.h"
#include "hostile.h"

namespace fusewire {
namespace attack {
namespace {

using faults::Eventually;

// The library itself: what greets as a member is one, and a lie of its is answered with a goodbye.
TEST(Hostile, ALiarIsAMemberUntilItLies) {
  faults::PeerProcess peer("name=ps:0 cluster=prod secret=open-sesame-open");
  ASSERT_TRUE(peer.ready()) << peer.first_words();
  task::TaskOptions options;
  options.pipe.cluster = "prod";
  options.pipe.name = "worker:7";
  options.pipe.secret = "open-sesame-open";
  const auto task = std::move(task::Task::Start(std::move(options))).value();
  Liar liar(*task, peer.address(), task->shared().options(), rpc::kRpcService);
  ASSERT_TRUE(liar.Greet());
  EXPECT_EQ(liar.peer().name, "ps:0");
  EXPECT_TRUE(Eventually([&] { return peer.AskNumbers("stats")["open"] == 1; }));
  Lie chunk;
  chunk.kind = wire::FrameKind::kChunk;
  chunk.body = "behind nothing";
  liar.Send(chunk);
  EXPECT_TRUE(Eventually([&] { return liar.closed(); }));
}

}  // namespace
}  // namespace attack
}  // namespace fusewire
