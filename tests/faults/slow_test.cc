// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Limits that are long by default.
#include "faults.h"

namespace fusewire::faults {
namespace {

using SlowFaults = Faults;

TEST_F(SlowFaults, AStoppedPeerIsGivenUpAfterTwentySecondsByDefault) {
  PeerProcess peer("name=ps:0");
  ASSERT_TRUE(peer.ready()) << peer.first_words();
  rpc::Client& client = ClientOf(peer.address());
  ASSERT_TRUE(Works(client));
  for (int i = 0; i < 5; ++i) calls_.Start(client, kHold);
  ASSERT_TRUE(InFlight(peer, 5));
  int64_t stopped_ns = NowNs();
  peer.Stop();
  ASSERT_TRUE(calls_.AllDone(40 * kSecondNs));
  calls_.ExpectAll(Code::kUnavailable, stopped_ns, 20 * kSecondNs + kToldNs);
  for (const TimedCall& call : calls_.all()) EXPECT_GE(call.ended_ns - stopped_ns, 14 * kSecondNs);
  // A task that asked and was stopped for as long is given up by the server, too.
  peer.Continue();
  EXPECT_TRUE(InFlight(peer, 0));
  EXPECT_TRUE(Works(client));
}

}  // namespace
}  // namespace fusewire::faults
