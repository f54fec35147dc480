// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/recorder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace fusewire::observe {
namespace {

TEST(Recorder, AnOperationIsOpenUntilItEnds) {
  Recorder recorder;
  const uint32_t tag = recorder.tags().Find(Kind::kReceive, "worker:0", "ps:0", "weights");
  Op op = recorder.Begin(tag, 7, 42, 1000);
  ASSERT_TRUE(op);
  std::vector<Seen> seen = recorder.Read();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_TRUE(seen[0].is_open);
  EXPECT_EQ(seen[0].tag, tag);
  EXPECT_EQ(seen[0].step, 7);
  EXPECT_EQ(seen[0].flow, 42u);
  EXPECT_EQ(seen[0].begun_ns, 1000);
  EXPECT_EQ(seen[0].landed_ns, 0);
  Recorder::Landed(op, 1500);
  EXPECT_EQ(recorder.Read()[0].landed_ns, 1500);

  recorder.EndOp(&op, End::kFailed, 4096, 3000);
  EXPECT_FALSE(op);
  seen = recorder.Read();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_FALSE(seen[0].is_open);
  EXPECT_EQ(seen[0].end, End::kFailed);
  EXPECT_EQ(seen[0].bytes, 4096u);
  EXPECT_EQ(seen[0].ended_ns, 3000);
  const Tag& totals = recorder.tags().at(tag);
  EXPECT_EQ(totals.count.Read(), 1u);
  EXPECT_EQ(totals.bytes.Read(), 4096u);
  EXPECT_EQ(totals.time_ns.Read(), 2000u);
  EXPECT_EQ(totals.line->failed.Read(), 1u);
  EXPECT_EQ(totals.line->duration_ns.Read().count, 1u);
  recorder.EndOp(&op, End::kOk, 1, 4000);  // it has ended
  EXPECT_EQ(totals.count.Read(), 1u);
}

TEST(Recorder, AStuckOperationStaysWhileTheRingTurns) {
  Recorder recorder;
  Op stuck = recorder.Begin(1, 1, 1, 5);
  for (int64_t i = 0; i < 10 * static_cast<int64_t>(Recorder::kRecords); ++i) {
    Op op = recorder.Begin(0, i, 0, 10 + i);
    recorder.EndOp(&op, End::kOk, 0, 11 + i);
  }
  const std::vector<Seen> seen = recorder.Read();
  EXPECT_EQ(seen.size(), Recorder::kRecords);
  EXPECT_EQ(std::count_if(seen.begin(), seen.end(), [](const Seen& each) { return each.is_open; }), 1);
  // All others are the last ones.
  for (const Seen& each : seen) {
    if (!each.is_open) {
      EXPECT_GT(each.step, 8 * static_cast<int64_t>(Recorder::kRecords));
    }
  }
  recorder.EndOp(&stuck, End::kOk, 0, 20);
}

TEST(Recorder, MoreThanItHoldsIsCountedAndNotRecorded) {
  Recorder recorder;
  constexpr size_t kAll = Recorder::kRings * Recorder::kRecords;
  std::vector<Op> ops;
  for (size_t i = 0; i < kAll + 10; ++i) ops.push_back(recorder.Begin(0, 0, 0, 1));
  const size_t recorded = recorder.Read().size();
  EXPECT_GT(recorded, kAll / 2);
  EXPECT_LE(recorded, kAll);
  EXPECT_EQ(recorder.unrecorded(), kAll + 10 - recorded);
  for (Op& op : ops) recorder.EndOp(&op, End::kOk, 0, 2);
  Op again = recorder.Begin(0, 0, 0, 3);
  EXPECT_TRUE(again);
  recorder.EndOp(&again, End::kOk, 0, 4);
}

// Each operation's numbers belong together: a reader must never see those of two.
TEST(Recorder, ReadersSeeWholeOperationsWhileThreadsRecord) {
  Recorder recorder;
  std::atomic<bool> ends{false};
  std::vector<std::thread> threads;
  for (int64_t thread = 1; thread <= 4; ++thread) {
    threads.emplace_back([&recorder, &ends, thread] {
      for (int64_t i = 1; !ends.load(); ++i) {
        const int64_t number = thread * 1'000'000'000 + i;
        Op op = recorder.Begin(0, number, static_cast<uint64_t>(number), number);
        Recorder::Landed(op, number);
        recorder.EndOp(&op, End::kOk, static_cast<uint64_t>(number), number);
      }
    });
  }
  size_t ended = 0;
  for (int i = 0; i < 200 || ended == 0; ++i) {  // the threads may begin late
    for (const Seen& seen : recorder.Read()) {
      EXPECT_EQ(seen.begun_ns, seen.step);
      EXPECT_EQ(seen.flow, static_cast<uint64_t>(seen.step));
      if (seen.is_open) continue;
      ++ended;
      EXPECT_EQ(seen.bytes, static_cast<uint64_t>(seen.step));
      EXPECT_EQ(seen.ended_ns, seen.step);
      EXPECT_EQ(seen.landed_ns, seen.step);
    }
  }
  ends.store(true);
  for (std::thread& thread : threads) thread.join();
}

TEST(Recorder, WithoutOneNothingIsRecorded) {
  Recorder* const before = the_recorder.exchange(nullptr);  // another test of this process may have started it
  EXPECT_EQ(FindTag(Kind::kCall, "", "", "any"), 0u);
  Op op = BeginOp(0, 1, 2, 3);
  EXPECT_FALSE(op);
  Recorder::Landed(op, 4);
  EndOp(&op, true);
  the_recorder.store(before);
}

TEST(Recorder, ShortOperationsAreWantedWhileTheRingIsRead) {
  short_ops_wanted.store(0);  // another test of this process may have read a ring
  EXPECT_FALSE(TakeShortOp());
  short_ops_wanted.store(2);
  EXPECT_TRUE(TakeShortOp());
  EXPECT_TRUE(TakeShortOp());
  EXPECT_FALSE(TakeShortOp());
}

}  // namespace
}  // namespace fusewire::observe
