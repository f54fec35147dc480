// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/heartbeat.h"

#include <gtest/gtest.h>

#include <optional>

#include "fusewire/base/clock.h"

namespace fusewire::pipe {
namespace {

using Peer = Heartbeat::Peer;

constexpr int64_t kSilent = 20 * kSecondNs;
constexpr int64_t kStart = 1000 * kSecondNs;

TEST(Heartbeat, SuspectsASilentPeerBeforeItGivesItUp) {
  Heartbeat heartbeat(kSilent, kStart);
  EXPECT_EQ(heartbeat.Look(kStart + kSilent - 1), Peer::kHeard);
  EXPECT_EQ(heartbeat.Look(kStart + kSilent), Peer::kSuspect);
  EXPECT_EQ(heartbeat.Look(kStart + kSilent + Heartbeat::SecondLookNs()), Peer::kSilent);
}

TEST(Heartbeat, AWordClearsASuspect) {
  Heartbeat heartbeat(kSilent, kStart);
  EXPECT_EQ(heartbeat.Look(kStart + kSilent), Peer::kSuspect);
  heartbeat.OnHeard(kStart + kSilent + 1);
  EXPECT_EQ(heartbeat.Look(kStart + kSilent + 2), Peer::kHeard);
  EXPECT_EQ(heartbeat.Look(kStart + 2 * kSilent + 1), Peer::kSuspect) << "not given up without a second look";
}

TEST(Heartbeat, PingsOnlyWhereOneSideHasBeenSilent) {
  Heartbeat heartbeat(kSilent, kStart);
  const int64_t now = kStart + heartbeat.PeriodNs() - 1;
  EXPECT_EQ(heartbeat.Ping(now, now), std::nullopt);
  EXPECT_TRUE(heartbeat.Ping(now, kStart).has_value()) << "we have written nothing for long";
  EXPECT_TRUE(heartbeat.Ping(now + 1, now + 1).has_value()) << "we have heard nothing for long";
}

TEST(Heartbeat, TimesThePingThatWaitsForItsAnswerFromItsFirstOne) {
  Heartbeat heartbeat(kSilent, kStart);
  const int64_t first = kStart + kSilent / 2;
  std::optional<uint64_t> ping = heartbeat.Ping(first, kStart);
  ASSERT_TRUE(ping.has_value());
  EXPECT_EQ(heartbeat.Ping(first + kSecondNs, kStart), ping);
  EXPECT_EQ(heartbeat.OnPong(*ping + 1, first + kSecondNs), std::nullopt) << "another one's";
  EXPECT_EQ(heartbeat.OnPong(*ping, first + 2 * kSecondNs), 2 * kSecondNs);
  EXPECT_EQ(heartbeat.OnPong(*ping, first + 3 * kSecondNs), std::nullopt) << "answered already";
  EXPECT_EQ(heartbeat.OnPong(0, first + 3 * kSecondNs), std::nullopt);
}

TEST(Heartbeat, IsIdleOnceNoMessageHasComeBetweenTwoLooks) {
  Heartbeat heartbeat(kSilent, kStart);
  EXPECT_FALSE(heartbeat.IsIdle(3));
  EXPECT_TRUE(heartbeat.IsIdle(3));
  EXPECT_FALSE(heartbeat.IsIdle(4));
  EXPECT_TRUE(heartbeat.IsIdle(4));
}

TEST(Heartbeat, LooksSoonerAsTheSilenceNearsItsLimit) {
  Heartbeat heartbeat(kSilent, kStart);
  EXPECT_EQ(heartbeat.NextLookNs(kStart), kSilent / 4);
  EXPECT_EQ(heartbeat.NextLookNs(kStart + kSilent - kSecondNs), kSecondNs);
  EXPECT_EQ(heartbeat.NextLookNs(kStart + kSilent), kMillisecondNs) << "never at once";
}

}  // namespace
}  // namespace fusewire::pipe
