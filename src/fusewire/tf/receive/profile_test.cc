// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Receives while a profile is taken: each has an event, with the error of a failed one.
#include <string>
#include <utility>

#include "fusewire/tf/peer/marks.h"
#include "fusewire/tf/profile/profiler.h"
#include "fusewire/tf/receive/rendezvous.h"
#include "fusewire/tf/receive/step_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

class ProfiledReceiveTest : public testing::Test {
 protected:
  ProfiledReceiveTest() { on_.KnowPeer(); }
  ~ProfiledReceiveTest() override { TakeWireRecord(); }

  // One receive, of which the peer has heard.
  void Ask(Step* step, const std::string& edge, Ending* ending) {
    const size_t before = on_.world.asked.size();
    step->Receive(edge, ending);
    if (!on_.grpc().asked.empty()) on_.AnswerPort();  // a lie has ended its channel
    ASSERT_TRUE(on_.world.AwaitAsked(before + 1));
  }
  void ReplyToLast(Answer& answer) {
    on_.world.asked.back().reply.Send(Status::Ok(), answer.head, std::move(answer.body));
  }
  bool AwaitEnd(const Ending& ending) {
    return on_.world.RunUntil([&ending] { return ending.ends > 0; });
  }

  StepWorld on_;
};

TEST_F(ProfiledReceiveTest, HasAnEventForEachThatIsCounted) {
  Step step(&on_.task);
  Ending before, during, after;
  Ask(&step, "edge_1_early", &before);  // it begins before the profile, and ends in it
  ASSERT_TRUE(StartWireRecord());
  const uint64_t counted = GlobalCounters().recvs.load();
  ReplyToLast(Answer().Value(0, Ramp(3, 1)));
  ASSERT_TRUE(AwaitEnd(before));
  Ask(&step, "edge_22_weights/read", &during);
  ReplyToLast(Answer().Value(0, Ramp(10'000, 4)));
  ASSERT_TRUE(AwaitEnd(during));
  const WireRecord record = TakeWireRecord();
  ASSERT_EQ(record.events.size(), GlobalCounters().recvs.load() - counted);
  ASSERT_EQ(record.events.size(), 2u);
  EXPECT_EQ(record.events[0].name, "early");
  EXPECT_EQ(record.events[0].begun_ns, 0);
  const observe::EventFacts& event = record.events[1];
  EXPECT_EQ(event.kind, observe::Kind::kReceive);
  EXPECT_EQ(event.peer, "ps:0");
  EXPECT_EQ(event.name, "weights/read");
  EXPECT_EQ(event.step, kStep);
  EXPECT_EQ(event.bytes_in, 40'000u);
  EXPECT_EQ(event.error, "");
  EXPECT_LE(record.begun_ns, event.begun_ns);
  EXPECT_LE(event.begun_ns, event.arrived_ns);
  EXPECT_LE(event.arrived_ns, event.ended_ns);
  Ask(&step, "edge_3_late", &after);
  ReplyToLast(Answer().Value(0, Ramp(3, 1)));
  ASSERT_TRUE(AwaitEnd(after));
  EXPECT_TRUE(TakeWireRecord().events.empty());
}

TEST_F(ProfiledReceiveTest, HasTheErrorOfALiarAndOfADeadPeer) {
  Step step(&on_.task);
  Ending lied, died;
  ASSERT_TRUE(StartWireRecord());
  Ask(&step, "edge_1_lied", &lied);
  ReplyToLast(Answer().Dead(7));  // which was not requested
  ASSERT_TRUE(AwaitEnd(lied));
  ASSERT_FALSE(lied.status.ok());
  Ask(&step, "edge_2_died", &died);
  on_.world.KillPeer();
  ASSERT_TRUE(AwaitEnd(died));
  ASSERT_FALSE(died.status.ok());
  const WireRecord record = TakeWireRecord();
  ASSERT_EQ(record.events.size(), 2u);
  for (const observe::EventFacts& event : record.events) {
    EXPECT_NE(event.error, "") << event.name;
    EXPECT_EQ(event.bytes_in, 0u);
  }
  EXPECT_EQ(record.events[0].name, "lied");
  EXPECT_EQ(record.events[1].name, "died");
}

}  // namespace
}  // namespace fusewire::tf
