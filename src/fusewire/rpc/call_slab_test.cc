// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/rpc/call_slab.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "fusewire/base/random.h"

namespace fusewire {
namespace rpc {
namespace {

using Slab = CallSlab<int>;

TEST(CallSlab, GivesEachMemberAnIdThatFindsIt) {
  Slab slab(4);
  int one = 1, two = 2;
  wire::CallId first, second;
  ASSERT_TRUE(slab.Take(&one, &first));
  ASSERT_TRUE(slab.Take(&two, &second));
  EXPECT_NE(wire::PackCallId(first), wire::PackCallId(second));
  int* found = nullptr;
  EXPECT_EQ(slab.Find(first, &found), Slab::Found::kHere);
  EXPECT_EQ(found, &one);
  EXPECT_EQ(slab.Find(second, &found), Slab::Found::kHere);
  EXPECT_EQ(found, &two);
  EXPECT_EQ(slab.in_use(), 2u);
}

TEST(CallSlab, TellsALateAnswerFromALie) {
  Slab slab(4);
  int one = 1;
  wire::CallId id;
  ASSERT_TRUE(slab.Take(&one, &id));
  slab.Release(id);
  int* found = nullptr;
  EXPECT_EQ(slab.Find(id, &found), Slab::Found::kLate);
  EXPECT_EQ(slab.Find({id.slot, id.generation + 1}, &found), Slab::Found::kNever);  // not given out yet
  EXPECT_EQ(slab.Find({id.slot, id.generation + 2}, &found), Slab::Found::kNever);
  EXPECT_EQ(slab.Find({id.slot + 1, id.generation}, &found), Slab::Found::kNever);
  EXPECT_EQ(slab.Find({UINT32_MAX, 1}, &found), Slab::Found::kNever);
  EXPECT_EQ(found, nullptr);
}

TEST(CallSlab, IsFullAtItsLimitAndUsesSlotsAgain) {
  Slab slab(3);
  int member = 0;
  std::vector<wire::CallId> ids(3);
  for (wire::CallId& id : ids) ASSERT_TRUE(slab.Take(&member, &id));
  wire::CallId more;
  EXPECT_FALSE(slab.Take(&member, &more));
  slab.Release(ids[1]);
  ASSERT_TRUE(slab.Take(&member, &more));
  EXPECT_EQ(more.slot, ids[1].slot);
  EXPECT_NE(more.generation, ids[1].generation);
}

TEST(CallSlab, AgreesWithAModel) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Slab slab(50);
    std::vector<int> members(50);
    std::map<uint64_t, int*> alive;  // by packed id
    std::set<uint64_t> ended, given;
    for (int step = 0; step < 5000; ++step) {
      if (alive.size() < 50 && random.Chance(0.52)) {
        int* member = &members[random.Below(50)];
        wire::CallId id;
        ASSERT_TRUE(slab.Take(member, &id));
        ASSERT_TRUE(given.insert(wire::PackCallId(id)).second) << "an id was given out twice";
        alive[wire::PackCallId(id)] = member;
      } else if (!alive.empty()) {
        auto it = std::next(alive.begin(), static_cast<std::ptrdiff_t>(random.Below(alive.size())));
        slab.Release(wire::UnpackCallId(it->first));
        ended.insert(it->first);
        alive.erase(it);
      }
      ASSERT_EQ(slab.in_use(), alive.size());
    }
    for (const auto& [id, member] : alive) {
      int* found = nullptr;
      ASSERT_EQ(slab.Find(wire::UnpackCallId(id), &found), Slab::Found::kHere);
      ASSERT_EQ(found, member);
    }
    for (uint64_t id : ended) {
      int* found = nullptr;
      ASSERT_EQ(slab.Find(wire::UnpackCallId(id), &found), Slab::Found::kLate);
    }
    std::vector<int*> all = slab.All(), expected;
    for (const auto& [id, member] : alive) expected.push_back(member);
    std::sort(all.begin(), all.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(all, expected);
  }
}

TEST(CallSlab, GenerationsWrapWithoutConfusion) {
  Slab slab(1, UINT32_MAX - 2);
  int member = 0;
  std::vector<wire::CallId> past;
  for (int use = 0; use < 8; ++use) {
    wire::CallId id;
    ASSERT_TRUE(slab.Take(&member, &id));
    EXPECT_NE(wire::PackCallId(id), 0u) << "0 stands for no id";
    int* found = nullptr;
    EXPECT_EQ(slab.Find(id, &found), Slab::Found::kHere);
    EXPECT_EQ(slab.Find({id.slot, id.generation + 5}, &found), Slab::Found::kNever);
    for (wire::CallId old : past) EXPECT_EQ(slab.Find(old, &found), Slab::Found::kLate);
    slab.Release(id);
    past.push_back(id);
  }
  EXPECT_EQ(past.front().generation, UINT32_MAX - 2);
  EXPECT_LT(past.back().generation, 10u);
}

}  // namespace
}  // namespace rpc
}  // namespace fusewire
