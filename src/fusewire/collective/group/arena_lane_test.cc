// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The lane on its own; group_test.cc tests that a group behaves in an arena as it does over messages.
#include "fusewire/collective/group/arena_lane.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fusewire/base/clock.h"
#include "fusewire/base/random.h"
#include "fusewire/collective/group/party_test.h"

namespace fusewire::collective {
namespace {

TEST(ArenaLane, OpensWithTheFirstOperationAndStaysOpen) {
  Party party(3, task::TransportChoice::kAuto, OneHost(3));
  EXPECT_FALSE(party.at(0).in_arena());
  party.Run([](int, Group& group) {
    for (int round = 0; round < 100; ++round) ExpectSum(group, 1 + static_cast<size_t>(round) * 1000);
    EXPECT_TRUE(group.in_arena());
  });
}

TEST(ArenaLane, IsNotUsedIfARankSharesNoMemoryOrHostsDiffer) {
  for (const bool tcp : {true, false}) {
    GroupOptions options = OneHost(2);
    if (!tcp) options.places.hosts[1] = 4;
    Party party(2, tcp ? task::TransportChoice::kTcp : task::TransportChoice::kAuto, options);
    party.Run([](int, Group& group) {
      ExpectSum(group);
      EXPECT_FALSE(group.in_arena());
    });
  }
}

TEST(ArenaLane, StartedOperationsRunInTheOrderOfCalls) {
  constexpr int kRanks = 3;
  constexpr size_t kOperations = 200;
  Party party(kRanks, task::TransportChoice::kAuto, OneHost(kRanks));
  party.Run([](int rank, Group& group) {
    std::vector<Numbers> arrays;
    for (size_t i = 0; i < kOperations; ++i) arrays.emplace_back(i * 10 + 1, static_cast<int32_t>(i) + rank);
    std::vector<std::unique_ptr<Ticket>> tickets;
    for (size_t i = 0; i < kOperations; ++i) {
      // Some wait themselves, behind those that were started.
      if (i % 7 == static_cast<size_t>(rank)) {
        const Status status = group.Run(Sum(&arrays[i]));
        EXPECT_TRUE(status.ok()) << status.ToString();
      } else {
        tickets.push_back(group.StartTicket(Sum(&arrays[i])));
      }
    }
    for (const std::unique_ptr<Ticket>& ticket : tickets) {
      EXPECT_TRUE(ticket->Wait(20 * kSecondNs));
      EXPECT_TRUE(ticket->status().ok()) << ticket->status().ToString();
    }
    for (size_t i = 0; i < kOperations; ++i)
      EXPECT_EQ(arrays[i], Numbers(arrays[i].size(), static_cast<int32_t>(i) * kRanks + 3)) << i;
    EXPECT_TRUE(group.in_arena());
  });
}

TEST(ArenaLane, AnInvalidCallFailsAtEveryRankAndTheArenaStays) {
  Party party(3, task::TransportChoice::kAuto, OneHost(3));
  party.Run([](int rank, Group& group) {
    ExpectSum(group);
    Numbers array(10);
    CollectiveSpec spec = Sum(&array);
    if (rank == 1) spec.counts = {11};
    Status status = group.Run(spec);
    EXPECT_EQ(status.code(), Code::kInvalid) << status.ToString();
    EXPECT_NE(status.ToString().find(rank == 1 ? "not 44" : "rank 1 (w1) wants a call that can't be made"),
              std::string::npos)
        << status.ToString();
    // No rank can, so none differs.
    spec = Sum(&array);
    spec.counts.clear();
    status = group.Run(spec);
    EXPECT_EQ(status.code(), Code::kInvalid) << status.ToString();
    ExpectSum(group);
    EXPECT_TRUE(group.in_arena());
  });
}

// Of the same bytes, and yet not the same.
TEST(ArenaLane, TypesAreComparedAlsoWithoutAReduction) {
  Party party(2, task::TransportChoice::kAuto, OneHost(2));
  party.Run([](int rank, Group& group) {
    for (const CollectiveKind kind :
         {CollectiveKind::kBroadcast, CollectiveKind::kAllGather, CollectiveKind::kAllToAll}) {
      Numbers from(10), to(10);
      CollectiveSpec spec = Sum(&to);
      spec.kind = kind;
      spec.reduction.type = rank == 0 ? Type::kI32 : Type::kF32;
      if (kind == CollectiveKind::kAllGather) from.resize(5);
      if (kind != CollectiveKind::kBroadcast) spec.counts = {5, 5};
      if (kind == CollectiveKind::kAllToAll) spec.receives = {5, 5};
      spec.from = Pieces(from.data(), from.size() * 4);
      const Status status = group.Run(spec);
      EXPECT_EQ(status.code(), Code::kInvalid) << status.ToString();
      EXPECT_NE(status.cause().find("f32"), std::string::npos) << status.ToString();
    }
  });
}

// One rank cancels an operation that waits behind another, and one that is under way: all ranks are notified.
TEST(ArenaLane, CancelEndsWhatWaitsAndWhatRuns) {
  for (const bool running : {false, true}) {
    Party party(2, task::TransportChoice::kAuto, OneHost(2));
    std::atomic<bool> cancelled{false};
    party.Run([running, &cancelled](int rank, Group& group) {
      ExpectSum(group);
      Numbers first(10, 1), second(10, 1);
      std::unique_ptr<Ticket> one, two;
      if (rank == 0) {
        one = group.StartTicket(Sum(&first));
        two = group.StartTicket(Sum(&second));
        EXPECT_FALSE(one->Wait(20 * kMillisecondNs));
        (running ? one : two)->Cancel(Status::Application(5, "given up"));
        EXPECT_TRUE((running ? one : two)->Wait(5 * kSecondNs));
        EXPECT_EQ((running ? one : two)->status().code(), Code::kApplication) << two->status().ToString();
        cancelled = true;
      } else {
        while (!cancelled) std::this_thread::yield();
        one = group.StartTicket(Sum(&first));
        two = group.StartTicket(Sum(&second));
      }
      ASSERT_TRUE(one->Wait(10 * kSecondNs));
      ASSERT_TRUE(two->Wait(10 * kSecondNs));
      EXPECT_EQ(one->status().ok(), !running) << one->status().ToString();
      EXPECT_EQ(two->status().ok(), running) << two->status().ToString();
      ExpectSum(group);
      EXPECT_EQ(group.in_arena(), !running);
    });
  }
}

TEST(ArenaLane, AQueuedCallEndsByItsOwnDeadline) {
  Party party(2, task::TransportChoice::kAuto, OneHost(2));
  std::atomic<bool> late{true};
  party.Run([&late](int rank, Group& group) {
    ExpectSum(group);
    Numbers first(10, 1), second(10, 1);
    if (rank == 1) {
      while (late) std::this_thread::yield();
      Status status = group.Run(Sum(&first));
      EXPECT_TRUE(status.ok()) << status.ToString();
      status = group.Run(Sum(&second));
      EXPECT_FALSE(status.ok());
      ExpectSum(group);
      return;
    }
    auto ticket = group.StartTicket(Sum(&first));
    const Status status = group.Run(Sum(&second, 50 * kMillisecondNs));
    EXPECT_EQ(status.code(), Code::kTimeout) << status.ToString();
    late = false;
    EXPECT_TRUE(ticket->Wait(10 * kSecondNs));
    EXPECT_TRUE(ticket->status().ok()) << ticket->status().ToString();
    ExpectSum(group);
    EXPECT_TRUE(group.in_arena());
  });
}

// Its deadline counts from the call: what it waited for the arena is not added to what it waits for messages.
TEST(ArenaLane, AFirstCallThatNoRankJoinsEndsByItsDeadline) {
  Party party(2, task::TransportChoice::kAuto, OneHost(2));
  Numbers array(10, 1);
  const int64_t began_ns = Clock::Real()->NowNs();
  const Status status = party.at(0).Run(Sum(&array, 2 * kSecondNs));
  EXPECT_EQ(status.code(), Code::kTimeout) << status.ToString();
  EXPECT_NE(status.ToString().find("rank 1"), std::string::npos) << status.ToString();
  EXPECT_LT(Clock::Real()->NowNs() - began_ns, 3500 * kMillisecondNs);
  EXPECT_FALSE(party.at(0).in_arena());
}

// In and out of the arena: what fails in one rank's arena may be another's operation over messages.
TEST(ArenaLane, DeadlinesMissedAtRandomNeverHangAndNeverMixOperations) {
  constexpr int kRanks = 3;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Party party(kRanks, task::TransportChoice::kAuto, OneHost(kRanks));
    party.Run([seed](int rank, Group& group) {
      Random random(seed * 10 + static_cast<uint64_t>(rank));
      for (int round = 0; round < 60; ++round) {
        Numbers array(1 + static_cast<size_t>(round) * 37, 1 << rank);
        const bool hurried = random.Chance(0.1);
        const Status status = group.Run(Sum(&array, hurried ? 20 * 1000 : 20 * kSecondNs));
        if (status.ok()) {
          EXPECT_EQ(array, Numbers(array.size(), 7)) << round;
        } else {
          EXPECT_EQ(status.code(), Code::kTimeout) << status.ToString();
        }
      }
      ExpectSum(group);
    });
  }
}

TEST(ArenaLane, TheSurvivorsOfAShrinkShareANewArena) {
  Party party(3, task::TransportChoice::kAuto, OneHost(3));
  party.Run([](int rank, Group& group) {
    ExpectSum(group);
    if (rank == 1) group.Abort(Status::Application(1, "begin anew"));
    EXPECT_TRUE(group.Shrink().ok());
    ExpectSum(group);
    EXPECT_TRUE(group.in_arena());
  });
}

// A rank that answers turn 0 with a name that has no end, as one without an arena can: read to its end, it would be
// read beyond the words that ranks tell each other. AddressSanitizer sees it.
TEST(ArenaLane, AnUnterminatedGatheringNameIsNotFound) {
  GroupOptions options = OneHost(2);
  Party honest(2, task::TransportChoice::kAuto, options);
  options.name = "party";
  options.arena = false;
  options.rank = 1;
  for (const auto& endpoint : honest.endpoints) options.members.push_back({endpoint->name(), endpoint->address()});
  honest.groups[1].reset();
  auto made = Group::Make(*honest.endpoints[1], options);
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  std::thread liar([&] {
    std::vector<uint8_t> told(64, 0xff);
    told[0] = 0;
    CollectiveSpec spec;
    spec.kind = CollectiveKind::kAllReduce;
    spec.reduction.op = Op::kMax;
    spec.reduction.type = Type::kU8;
    spec.counts = {told.size()};
    spec.to = Pieces(told.data(), told.size());
    spec.timeout_ns = 10 * kSecondNs;
    (void)made.value()->Run(spec);
  });
  Numbers array(10, 1);
  EXPECT_FALSE(honest.at(0).Run(Sum(&array, 3 * kSecondNs)).ok());
  EXPECT_FALSE(honest.at(0).in_arena());
  liar.join();
  made.value().reset();
}

}  // namespace
}  // namespace fusewire::collective
