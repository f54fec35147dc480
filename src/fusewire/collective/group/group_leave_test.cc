// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Ranks that leave a group while others go on: data that they have sent stays valid, and a rank that needs more fails.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "fusewire/collective/group/groups_test.h"
#include "fusewire/collective/group/party_test.h"

namespace fusewire::collective {
namespace {

class GroupLeave : public GroupsOverWires {};

TEST_P(GroupLeave, LeavingAfterTheLastCallFailsNothing) {
  for (int round = 0; round < 20; ++round) {
    Party party(3, wire(), Options(3));
    party.Run([&party](int rank, Group& group) {
      Array array = Brought(rank, 1000);
      const Status status = group.Run(Want(CollectiveKind::kAllReduce, {1000}, Pieces(), Of(array)));
      EXPECT_TRUE(status.ok()) << status.ToString();
      EXPECT_TRUE(array == SumOfAll(3, 1000));
      party.Leave(rank);
    });
  }
}

// The root of a broadcast may be done before the others have begun, and so may those who bring something to a
// reduction. `early` leaves then; the others begin when it has left, or is seen to wait for them.
void LeaveEarly(task::TransportChoice wire, const GroupOptions& options, CollectiveKind kind, size_t count) {
  constexpr int kCalls = 8;
  constexpr int64_t kPauseNs = 50 * kMillisecondNs;
  Party party(3, wire, options);
  std::atomic<int> early{kind == CollectiveKind::kBroadcast ? 1 : 2};
  party.Run([&](int rank, Group& group) {
    Array array = Brought(rank, count);
    ASSERT_TRUE(group.Run(Want(CollectiveKind::kAllReduce, {count}, Pieces(), Of(array))).ok());
    const bool is_early = (rank == 0) == (kind == CollectiveKind::kBroadcast);
    const int64_t until_ns = Clock::Real()->NowNs() + kPauseNs;
    while (!is_early && early > 0 && Clock::Real()->NowNs() < until_ns) std::this_thread::yield();
    for (int call = 0; call < kCalls; ++call) {
      array = Brought(rank, count);
      const Status status = group.Run(Want(kind, {count}, Pieces(), Of(array)));
      ASSERT_TRUE(status.ok()) << "rank " << rank << ", call " << call << ": " << status.ToString();
      const Array expected = kind == CollectiveKind::kBroadcast ? Brought(0, count) : SumOfAll(3, count);
      ASSERT_TRUE(array == expected || (kind == CollectiveKind::kReduce && rank != 0))
          << "rank " << rank << ", call " << call;
    }
    party.Leave(rank);
    if (is_early) --early;
  });
}

TEST_P(GroupLeave, ARankMayLeaveBeforeTheOthersBegin) {
  for (const CollectiveKind kind : {CollectiveKind::kBroadcast, CollectiveKind::kReduce}) {
    for (const size_t count : {size_t{1}, size_t{1000}, size_t{100000}}) {
      SCOPED_TRACE(KindName(kind) + " of " + std::to_string(count));
      LeaveEarly(wire(), Options(3), kind, count);
    }
  }
}

// Rank 0 leaves the group, or goes for good; then the others call, or have called already.
void NeedOneThatHasLeft(task::TransportChoice wire, const GroupOptions& options, CollectiveKind kind, bool goes,
                        bool waits) {
  Party party(3, wire, options);
  std::atomic<bool> gone{false};
  std::atomic<int> called{0};
  party.Run([&](int rank, Group& group) {
    Array array = Brought(rank, 10);
    ASSERT_TRUE(group.Run(Want(CollectiveKind::kAllReduce, {10}, Pieces(), Of(array))).ok());
    if (rank == 0) {
      while (waits && called < 2) std::this_thread::yield();
      party.groups[0].reset();
      if (goes) party.endpoints[0]->Close();
      gone = true;
      return;
    }
    while (!waits && !gone) std::this_thread::yield();
    Array all(30);
    CollectiveSpec spec = Want(kind, {10}, Pieces(), Of(array));
    if (kind == CollectiveKind::kAllGather) spec = Want(kind, {10, 10, 10}, Of(array), Of(all));
    if (kind == CollectiveKind::kBarrier) spec = Want(kind, {}, Pieces(), Pieces());
    const int64_t since_ns = Clock::Real()->NowNs();
    const std::unique_ptr<Ticket> ticket = group.StartTicket(std::move(spec));
    ++called;
    EXPECT_TRUE(ticket->Wait());
    EXPECT_EQ(ticket->status().code(), Code::kUnavailable) << ticket->status().ToString();
    EXPECT_NE(ticket->status().ToString().find("(w0) has left"), std::string::npos) << ticket->status().ToString();
    EXPECT_LT(Clock::Real()->NowNs() - since_ns, 2 * kSecondNs);
  });
}

TEST_P(GroupLeave, AnOperationThatNeedsALeftRankFailsAtOnce) {
  for (const CollectiveKind kind :
       {CollectiveKind::kAllReduce, CollectiveKind::kBroadcast, CollectiveKind::kAllGather, CollectiveKind::kBarrier}) {
    for (const bool goes : {true, false}) {
      for (const bool waits : {true, false}) {
        SCOPED_TRACE(KindName(kind) + (goes ? ", it goes for good" : "") + (waits ? ", they wait already" : ""));
        NeedOneThatHasLeft(wire(), Options(3), kind, goes, waits);
      }
    }
  }
}

TEST_P(GroupLeave, AConfirmedBroadcastWaitsForItsReceivers) {
  Party party(2, wire());
  std::atomic<bool> may_receive{false};
  party.Run([&](int rank, Group& group) {
    Array array = Brought(rank, 10);
    ASSERT_TRUE(group.Run(Want(CollectiveKind::kAllReduce, {10}, Pieces(), Of(array))).ok());
    CollectiveSpec spec = Want(CollectiveKind::kBroadcast, {10}, Pieces(), Of(array));
    spec.confirm = true;
    while (rank != 0 && !may_receive) std::this_thread::yield();
    const std::unique_ptr<Ticket> ticket = group.StartTicket(std::move(spec));
    if (rank == 0) {
      EXPECT_FALSE(ticket->Wait(20 * kMillisecondNs));
      may_receive = true;
    }
    EXPECT_TRUE(ticket->Wait(20 * kSecondNs));
    EXPECT_TRUE(ticket->status().ok()) << ticket->status().ToString();
    group.Leave();
    group.Leave();
    const Status status = group.Run(Want(CollectiveKind::kBarrier, {}, Pieces(), Pieces()));
    EXPECT_EQ(status.code(), Code::kCancelled) << status.ToString();
  });
}

FUSEWIRE_GROUPS_OVER_WIRES(GroupLeave);

}  // namespace
}  // namespace fusewire::collective
