// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A cancelled operation ends at once, wherever it is: in the arena, behind others, while ranks agree on an
// arena, over messages. The others hear of it, and the group goes on.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "fusewire/collective/group/party_test.h"
#include "fusewire/reactor/cancel.h"
#include "fusewire/reactor/home_test.h"
#include "fusewire/reactor/reactor.h"

namespace fusewire::collective {
namespace {

using reactor::CancelToken;

// On a processor that does nothing else it takes a fraction of a millisecond; the intervals that were took 50 and 100.
constexpr int64_t kAtOnceNs = 10 * kMillisecondNs;
constexpr int kRounds = 8;

// Runs a sum that nobody else takes part in, and gives it up once it sleeps, mostly. How long Run took to return then.
int64_t GiveUpNs(Group& group) {
  CancelToken token;
  std::atomic<int64_t> cancelled_ns{0};
  std::thread canceller([&] {
    EXPECT_FALSE(reactor::Eventually([] { return false; }, 5 * kMillisecondNs));
    cancelled_ns = Clock::Real()->NowNs();
    token.Cancel();
  });
  Numbers array(10, 1);
  const Status status = group.Run(Sum(&array), &token);
  const int64_t returned_ns = Clock::Real()->NowNs();
  canceller.join();
  EXPECT_EQ(status.code(), Code::kCancelled) << status.ToString();
  return returned_ns - cancelled_ns;
}

void ExpectGivenUp(const Status& status) {
  EXPECT_EQ(status.code(), Code::kCancelled) << status.ToString();
  EXPECT_NE(status.ToString().find("gave it up"), std::string::npos) << status.ToString();
}

struct Way {
  const char* name;
  bool has_arena;
  bool is_first;  // before the ranks have agreed on an arena
};

class GroupCancel : public ::testing::TestWithParam<Way> {};

TEST_P(GroupCancel, EndsTheWaitAtOnceAndFailsAtTheOtherRanks) {
  int64_t quickest_ns = kForeverNs;
  for (int round = 0; round < kRounds; ++round) {
    Party party(2, task::TransportChoice::kAuto, GetParam().has_arena ? OneHost(2) : GroupOptions());
    std::atomic<bool> given_up{false};
    party.Run([&](int rank, Group& group) {
      if (!GetParam().is_first) ExpectSum(group);
      if (rank == 0) {
        quickest_ns = std::min(quickest_ns, GiveUpNs(group));
        given_up = true;
      } else {
        while (!given_up) std::this_thread::yield();
        Numbers array(10, 1);
        const Status status = group.Run(Sum(&array));
        // A message that had left before needs no more of its sender.
        if (GetParam().has_arena || !status.ok()) ExpectGivenUp(status);
      }
      ExpectSum(group);
    });
  }
  EXPECT_LT(quickest_ns, kAtOnceNs);
  RecordProperty("quickest_us", std::to_string(quickest_ns / kMicrosecondNs));
}

INSTANTIATE_TEST_SUITE_P(In, GroupCancel,
                         ::testing::Values(Way{"Arena", true, false}, Way{"SetUp", true, true},
                                           Way{"Messages", false, false}),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(GroupCancelled, AQueuedCallLeavesAtOnceAndItsTurnIsServed) {
  int64_t quickest_ns = kForeverNs;
  for (int round = 0; round < kRounds; ++round) {
    Party party(2, task::TransportChoice::kAuto, OneHost(2));
    std::atomic<bool> given_up{false};
    party.Run([&](int rank, Group& group) {
      ExpectSum(group);
      Numbers first(10, 1), second(10, 1);
      std::unique_ptr<Ticket> before;
      if (rank == 0) {
        before = group.StartTicket(Sum(&first));
        quickest_ns = std::min(quickest_ns, GiveUpNs(group));
        given_up = true;
      } else {
        while (!given_up) std::this_thread::yield();
        before = group.StartTicket(Sum(&first));
        ExpectGivenUp(group.Run(Sum(&second)));
      }
      EXPECT_TRUE(before->Wait(10 * kSecondNs));
      EXPECT_TRUE(before->status().ok()) << before->status().ToString();
      ExpectSum(group);
      EXPECT_TRUE(group.in_arena());
    });
  }
  EXPECT_LT(quickest_ns, kAtOnceNs);
}

TEST(GroupCancelled, ACancelBeforeTheBeginFailsInItsPlace) {
  for (const bool has_arena : {true, false}) {
    Party party(2, task::TransportChoice::kAuto, has_arena ? OneHost(2) : GroupOptions());
    party.Run([has_arena](int rank, Group& group) {
      ExpectSum(group);
      Numbers array(10, 1);
      CancelToken token;
      if (rank == 0) token.Cancel();
      ExpectGivenUp(group.Run(Sum(&array), &token));
      EXPECT_EQ(group.in_arena(), has_arena);
      ExpectSum(group);
    });
  }
}

// A token that is cancelled at any moment of a run of operations: each ends once, well or given up, at every rank
// alike, and the next one goes on.
TEST(GroupCancelled, AtAnyMomentNothingHangs) {
  for (const bool has_arena : {true, false}) {
    Party party(2, task::TransportChoice::kAuto, has_arena ? OneHost(2) : GroupOptions());
    party.Run([](int rank, Group& group) {
      for (int round = 0; round < 60; ++round) {
        Numbers array(10, 1);
        CancelToken token;
        std::thread canceller;
        if (round % 2 == rank) {
          canceller = std::thread([&token, round] {
            for (int i = 0; i < round % 5; ++i) std::this_thread::yield();
            token.Cancel();
          });
        }
        const Status status = group.Run(Sum(&array), &token);
        if (canceller.joinable()) canceller.join();
        EXPECT_TRUE(!status.ok() || array == Numbers(10, 2)) << round;
      }
      ExpectSum(group);
    });
  }
}

}  // namespace
}  // namespace fusewire::collective
