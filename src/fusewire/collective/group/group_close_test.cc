// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A group that goes while some of its operations have missed their deadline and others are under way: it goes at once,
// as long as its peers take what they are sent.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "fusewire/base/clock.h"
#include "fusewire/base/random.h"
#include "fusewire/collective/group/groups_test.h"
#include "fusewire/collective/group/party_test.h"

namespace fusewire::collective {
namespace {

class GroupClose : public GroupsOverWires {};

constexpr int kClosingRanks = 3;
constexpr int kClosingRounds = 15;
constexpr int kClosingCalls = 12;
constexpr int64_t kCloseNsMax = 1 * kSecondNs;

struct Call {
  std::vector<int64_t> array;
  std::atomic<int> ends{0};
};

CollectiveSpec SumInTime(Call* call, int64_t timeout_ns) {
  CollectiveSpec spec;
  spec.kind = CollectiveKind::kAllReduce;
  spec.reduction.type = Type::kI64;
  spec.counts = {call->array.size()};
  spec.to = Pieces(call->array.data(), call->array.size() * sizeof(int64_t));
  spec.timeout_ns = timeout_ns;
  return spec;
}

// How long it takes until it is gone.
template <class Owner>
int64_t TimeToClose(std::unique_ptr<Owner>* owner) {
  const int64_t since_ns = Clock::Real()->NowNs();
  owner->reset();
  return Clock::Real()->NowNs() - since_ns;
}

TEST_P(GroupClose, IsPromptWithOperationsUnderWay) {
  const GroupOptions options = Options(kClosingRanks);
  int64_t slowest_ns = 0;
  for (uint64_t round = 1; round <= kClosingRounds; ++round) {
    std::vector<std::vector<Call>> calls;
    for (int rank = 0; rank < kClosingRanks; ++rank) calls.emplace_back(kClosingCalls);
    Party party(kClosingRanks, wire(), options);
    std::vector<int> made(kClosingRanks);
    party.Run([&calls, &made, round](int rank, Group& group) {
      const auto place = static_cast<size_t>(rank);
      Random sizes(round), mine(round * 10 + place);
      // One of them comes late to the last calls: it never makes them.
      made[place] = rank == static_cast<int>(round % kClosingRanks) ? kClosingCalls / 2 : kClosingCalls;
      for (int i = 0; i < made[place]; ++i) {
        Call* const call = &calls[place][static_cast<size_t>(i)];
        call->array.assign(1 + sizes.Below(uint64_t{1} << (2 + sizes.Below(16))), 1);
        const int64_t hurried_ns = static_cast<int64_t>(1 + mine.Below(20)) * kMillisecondNs;
        group.Start(SumInTime(call, mine.Chance(0.5) ? hurried_ns : 20 * kSecondNs),
                    [call](const Status&) { ++call->ends; });
      }
      // By then some have ended, and some have not.
      Call last;
      last.array.assign(1, 1);
      const Status status = group.Run(SumInTime(&last, static_cast<int64_t>(mine.Below(30)) * kMillisecondNs + 1));
      EXPECT_NE(status.code(), Code::kCorrupt) << status.ToString();
    });
    for (auto& group : party.groups) slowest_ns = std::max(slowest_ns, TimeToClose(&group));
    for (int rank = 0; rank < kClosingRanks; ++rank) {
      const auto place = static_cast<size_t>(rank);
      for (int i = 0; i < kClosingCalls; ++i)
        EXPECT_EQ(calls[place][static_cast<size_t>(i)].ends, i < made[place] ? 1 : 0) << rank << ", call " << i;
    }
    for (auto& endpoint : party.endpoints) slowest_ns = std::max(slowest_ns, TimeToClose(&endpoint));
  }
  RecordProperty("slowest_ms", static_cast<int>(slowest_ns / kMillisecondNs));
  EXPECT_LT(slowest_ns, kCloseNsMax);
}

FUSEWIRE_GROUPS_OVER_WIRES(GroupClose);

}  // namespace
}  // namespace fusewire::collective
