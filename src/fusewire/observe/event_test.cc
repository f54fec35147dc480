// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/event.h"

#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace fusewire::observe {
namespace {

class Listening final : public EventListener {
 public:
  Listening() { event_listener.store(this); }
  ~Listening() { event_listener.store(nullptr); }
  void OnEnd(EventFacts facts) override { heard.push_back(std::move(facts)); }

  std::vector<EventFacts> heard;
};

class EventTest : public testing::Test {
 protected:
  // A test of the watch may have left the recorder of this process.
  EventTest() : before_(the_recorder.exchange(nullptr)) {}
  ~EventTest() override { the_recorder.store(before_); }

 private:
  Recorder* const before_;
};

TEST_F(EventTest, WithoutReadersHasNoTimes) {
  EXPECT_EQ(EventNowNs(), 0);
  Event event;
  EXPECT_FALSE(event.has_begun());
  event.Begin(Kind::kReceive, 0, 1, 2);
  EXPECT_TRUE(event.has_begun());
  event.Arrive();
  event.End(true, 8, [](EventFacts*) { ADD_FAILURE() << "nobody listens"; });
  EXPECT_FALSE(event.has_begun());
}

TEST_F(EventTest, EachMomentReachesTheRingAndTheListener) {
  Recorder recorder;
  the_recorder.store(&recorder);
  Listening listening;
  const uint32_t tag = recorder.tags().Find(Kind::kReceive, "worker:0", "ps:0", "weights");
  Event event;
  event.Begin(Kind::kReceive, tag, 7, 99, 1000);
  event.Arrive(1500);
  event.End(false, 4096, 2000, [](EventFacts* facts) {
    facts->name = "weights";
    facts->error = "lost";
  });
  event.End(true, 1, 3000, [](EventFacts*) { ADD_FAILURE() << "it has ended"; });
  const std::vector<Seen> seen = recorder.Read();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].tag, tag);
  EXPECT_EQ(seen[0].end, End::kFailed);
  EXPECT_EQ(seen[0].bytes, 4096u);
  ASSERT_EQ(listening.heard.size(), 1u);
  const EventFacts& facts = listening.heard[0];
  EXPECT_EQ(facts.kind, Kind::kReceive);
  EXPECT_EQ(facts.name, "weights");
  EXPECT_EQ(facts.error, "lost");
  EXPECT_EQ(facts.step, 7);
  for (const auto& [begun, arrived, ended] : {std::tuple(seen[0].begun_ns, seen[0].landed_ns, seen[0].ended_ns),
                                              std::tuple(facts.begun_ns, facts.arrived_ns, facts.ended_ns)}) {
    EXPECT_EQ(begun, 1000);
    EXPECT_EQ(arrived, 1500);
    EXPECT_EQ(ended, 2000);
  }
}

TEST_F(EventTest, AListenerAloneHasTheTimes) {
  Listening listening;
  Event event;
  event.Begin(Kind::kProvide, 0, 1, 2);
  event.End(true, 8, [](EventFacts* facts) { facts->bytes_out = 8; });
  ASSERT_EQ(listening.heard.size(), 1u);
  EXPECT_GT(listening.heard[0].begun_ns, 0);
  EXPECT_EQ(listening.heard[0].arrived_ns, 0);
  EXPECT_LE(listening.heard[0].begun_ns, listening.heard[0].ended_ns);
  event.Begin(Kind::kCall, 0, 1, 2);
  event.End(true);
  EXPECT_EQ(listening.heard.size(), 1u);  // it is for the ring alone
}

TEST_F(EventTest, SomeKindsAreCountedAsTheyBegin) {
  const auto count = [](Kind kind) { return events_begun[static_cast<size_t>(kind)].load(); };
  const uint64_t runs = count(Kind::kRunOut), receives = count(Kind::kReceive);
  Event run, receive;
  run.Begin(Kind::kRunOut, 0, 1, 2);
  receive.Begin(Kind::kReceive, 0, 1, 2);
  EXPECT_EQ(count(Kind::kRunOut), runs + 1);
  EXPECT_EQ(count(Kind::kReceive), receives);
}

}  // namespace
}  // namespace fusewire::observe
