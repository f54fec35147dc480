// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/sender.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fusewire::pipe {
namespace {

WaitingMessage Waiting(uint64_t call, uint64_t cost, bool express, Done done = nullptr) {
  WaitingMessage waiting;
  waiting.message.kind = wire::FrameKind::kCall;
  waiting.message.call = call;
  waiting.message.express = express;
  waiting.head = Buffer::CopyOf(std::string(10, 'h'));
  waiting.message.head = waiting.head.bytes();
  waiting.done = std::move(done);
  waiting.cost = cost;
  return waiting;
}

TEST(SendQueue, KeepsTheOrderOfEachOfItsTwoQueues) {
  SendQueue queue(1 << 20);
  EXPECT_TRUE(queue.empty());
  queue.Push(Waiting(1, 100, false));
  queue.Push(Waiting(2, 200, true));
  queue.Push(Waiting(3, 300, false));
  queue.Push(Waiting(4, 400, true));
  EXPECT_EQ(queue.express_cost(), 200u);
  EXPECT_EQ(queue.in_order_cost(), 100u);
  EXPECT_EQ(queue.PopExpress().message.call, 2u);
  EXPECT_EQ(queue.PopExpress().message.call, 4u);
  EXPECT_FALSE(queue.has_express());
  EXPECT_EQ(queue.PopInOrder().message.call, 1u);
  EXPECT_EQ(queue.PopInOrder().message.call, 3u);
  EXPECT_TRUE(queue.empty());
}

TEST(SendQueue, HasRoomAgainForWhatHasGone) {
  SendQueue queue(2 * (sizeof(WaitingMessage) + 10));
  queue.Push(Waiting(1, 100, false));
  EXPECT_TRUE(queue.HasRoom(10));
  EXPECT_FALSE(queue.HasRoom(11));
  queue.Push(Waiting(2, 100, true));
  EXPECT_FALSE(queue.HasRoom(0));
  EXPECT_TRUE(queue.TakeBack(1).has_value());
  EXPECT_TRUE(queue.HasRoom(10));
  queue.PopExpress();
  EXPECT_TRUE(queue.HasRoom(10 + sizeof(WaitingMessage) + 10));
}

TEST(SendQueue, TakesBackTheRightCall) {
  SendQueue queue(1 << 20);
  queue.Push(Waiting(1, 100, false));
  queue.Push(Waiting(2, 100, true));
  WaitingMessage reply = Waiting(3, 100, false);
  reply.message.kind = wire::FrameKind::kReply;
  queue.Push(std::move(reply));
  EXPECT_FALSE(queue.TakeBack(3).has_value()) << "an answer is not a call";
  std::optional<WaitingMessage> taken_back = queue.TakeBack(2);
  ASSERT_TRUE(taken_back.has_value());
  EXPECT_EQ(taken_back->message.call, 2u);
  EXPECT_EQ(taken_back->message.head.ToString(), std::string(10, 'h'));
  EXPECT_FALSE(queue.TakeBack(2).has_value());
  EXPECT_FALSE(queue.has_express());
}

TEST(SendQueue, WhatIsLongerThanAChunkIsNotExpress) {
  SendQueue queue(1 << 20);
  for (uint64_t call = 1; call <= 4; ++call) queue.Push(Waiting(call, call * 100, true));
  queue.DemoteLongExpress(200);
  EXPECT_EQ(queue.PopExpress().message.call, 1u);
  EXPECT_EQ(queue.PopExpress().message.call, 2u);
  EXPECT_FALSE(queue.has_express());
  EXPECT_EQ(queue.PopInOrder().message.call, 3u);
  EXPECT_EQ(queue.PopInOrder().message.call, 4u);
}

TEST(SendQueue, FailsEachOnceInTheOrderInWhichTheyWouldHaveGone) {
  SendQueue queue(1 << 20);
  std::vector<uint64_t> failed;
  auto tell = [&failed](uint64_t call) {
    return [&failed, call](const Status& why) {
      EXPECT_EQ(why.code(), Code::kCancelled);
      failed.push_back(call);
    };
  };
  queue.Push(Waiting(1, 100, false, tell(1)));
  queue.Push(Waiting(2, 100, true, tell(2)));
  queue.Push(Waiting(3, 100, false));
  queue.Push(Waiting(4, 100, false, tell(4)));
  queue.Fail(Status::Cancelled("it was given up"));
  EXPECT_EQ(failed, (std::vector<uint64_t>{2, 1, 4}));
  EXPECT_TRUE(queue.empty());
  queue.Fail(Status::Cancelled("it was given up"));
  EXPECT_EQ(failed.size(), 3u);
}

}  // namespace
}  // namespace fusewire::pipe
