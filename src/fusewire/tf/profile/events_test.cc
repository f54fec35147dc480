// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/profile/profiler.h"

#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

class WireEventsTest : public testing::Test {
 protected:
  ~WireEventsTest() override { TakeWireRecord(); }

  static void Record(const std::string& name) {
    observe::Event event;
    event.Begin(observe::Kind::kReceive, 0, 0, 0);
    event.End(true, 0, [&name](observe::EventFacts* facts) { facts->name = name; });
  }
};

TEST_F(WireEventsTest, KeepsWhatEndsWhileAProfileIsTaken) {
  EXPECT_FALSE(observe::HasEventListener());
  Record("before");
  ASSERT_TRUE(StartWireRecord());
  EXPECT_TRUE(observe::HasEventListener());
  Record("one");
  Record("two");
  const WireRecord record = TakeWireRecord();
  EXPECT_FALSE(observe::HasEventListener());
  Record("after");
  ASSERT_EQ(record.events.size(), 2u);
  EXPECT_EQ(record.events[0].name, "one");
  EXPECT_EQ(record.events[1].name, "two");
  EXPECT_EQ(record.left_out, 0u);
  EXPECT_GT(record.begun_ns, 0);
  EXPECT_LE(record.begun_ns, record.events[0].ended_ns);
  EXPECT_LE(record.events[1].ended_ns, record.ended_ns);
}

TEST_F(WireEventsTest, EachProfileBeginsEmptyAndOneIsTakenAtATime) {
  ASSERT_TRUE(StartWireRecord());
  EXPECT_FALSE(StartWireRecord());
  Record("one");
  EXPECT_EQ(TakeWireRecord().events.size(), 1u);
  EXPECT_EQ(TakeWireRecord().ended_ns, 0);  // there is none
  ASSERT_TRUE(StartWireRecord());
  EXPECT_TRUE(TakeWireRecord().events.empty());
}

TEST_F(WireEventsTest, CountsWhatIsBeyondItsLimit) {
  ASSERT_TRUE(StartWireRecord(3));
  for (int i = 0; i < 10; ++i) Record(std::to_string(i));
  const WireRecord record = TakeWireRecord();
  ASSERT_EQ(record.events.size(), 3u);
  EXPECT_EQ(record.events[2].name, "2");  // the first are kept
  EXPECT_EQ(record.left_out, 7u);
}

TEST_F(WireEventsTest, LosesNothingOfSeveralThreads) {
  ASSERT_TRUE(StartWireRecord());
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int k = 0; k < 1000; ++k) Record("one");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(TakeWireRecord().events.size(), 4000u);
}

}  // namespace
}  // namespace fusewire::tf
