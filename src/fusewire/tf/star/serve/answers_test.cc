// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/serve/answers.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/tf/peer/world_test.h"

namespace fusewire::tf {
namespace {

class Caller final : public rpc::Call {
 public:
  explicit Caller(ConstBytes text) : Call(kRunPart) { head = text; }
  bool has_ended = false;
  Status status;

 private:
  void OnDone(Status done) override {
    status = std::move(done);
    has_ended = true;
  }
};

// The replies are real ones: each is to a call of its own.
class AnswersTest : public testing::Test {
 protected:
  ~AnswersTest() override {
    for (rpc::Reply& reply : running_) reply.Send(Status::Ok());
    world_.RunUntil([this] {
      for (const Caller& call : calls_) {
        if (!call.has_ended) return false;
      }
      return true;
    });
  }
  rpc::Reply Come() {
    calls_.emplace_back(ConstBytes());
    channel_->client().Start(&calls_.back());
    EXPECT_TRUE(world_.AwaitAsked(calls_.size()));
    return std::move(world_.asked.back().reply);
  }
  // It is to be run.
  void ExpectFirst(uint64_t number, uint64_t open) {
    rpc::Reply reply = Come();
    EXPECT_TRUE(answers_.Begin({1, number, open}, &reply));
    running_.push_back(std::move(reply));
  }
  // It has an answer, or will have one.
  Caller& ExpectAgain(uint64_t number, uint64_t open) {
    rpc::Reply reply = Come();
    EXPECT_FALSE(answers_.Begin({1, number, open}, &reply));
    EXPECT_FALSE(reply);
    return calls_.back();
  }
  // The oldest run that is under way.
  void End(uint64_t number, const std::string& head, size_t body_bytes = 0) {
    rpc::Reply reply = std::move(running_.front());
    running_.pop_front();
    Buffers body;
    if (body_bytes > 0) body.push_back(Buffer::CopyOf(ConstBytes(std::string(body_bytes, 'b'))));
    answers_.End({1, number, 1}, ConstBytes(head), body, &reply);
    reply.Send(Status::Ok(), ConstBytes(head), std::move(body));
  }
  bool AwaitEnd(const Caller& call) {
    return world_.RunUntil([&call] { return call.has_ended; });
  }

  Answers answers_;
  DataWorld world_;
  ChannelPtr channel_ = world_.MakeChannel();
  std::deque<Caller> calls_;
  std::deque<rpc::Reply> running_;
};

TEST_F(AnswersTest, ARunThatComesAgainAfterItsEndGetsItsAnswer) {
  ExpectFirst(1, 1);
  End(1, "answer", 100);
  for (int turn = 0; turn < 3; ++turn) {
    Caller& again = ExpectAgain(1, 1);
    ASSERT_TRUE(AwaitEnd(again));
    EXPECT_TRUE(again.status.ok()) << again.status.ToString();
    EXPECT_EQ(again.reply_head, "answer");
    ASSERT_EQ(again.reply_body.size(), 1u);
    EXPECT_EQ(again.reply_body[0].size(), 100u);
  }
}

TEST_F(AnswersTest, OneThatStillRunsAnswersTheConnectionThatAskedLast) {
  ExpectFirst(1, 1);
  Caller& second = ExpectAgain(1, 1);
  Caller& third = ExpectAgain(1, 1);
  ASSERT_TRUE(AwaitEnd(second));
  EXPECT_EQ(second.status.code(), Code::kCancelled);
  EXPECT_FALSE(third.has_ended);
  End(1, "answer", Answers::kKeptBytesMax + 1);  // it need not be kept for that
  ASSERT_TRUE(AwaitEnd(third));
  EXPECT_TRUE(third.status.ok()) << third.status.ToString();
  EXPECT_EQ(third.reply_head, "answer");
  EXPECT_EQ(third.reply_body[0].size(), Answers::kKeptBytesMax + 1);
}

TEST_F(AnswersTest, ALargeAnswerIsNotKept) {
  ExpectFirst(1, 1);
  End(1, "answer", Answers::kKeptBytesMax);
  Caller& again = ExpectAgain(1, 1);
  ASSERT_TRUE(AwaitEnd(again));
  EXPECT_EQ(again.status.app_code(), kAnswerGone);
}

TEST_F(AnswersTest, WhatTheWorkerHasIsDroppedAndNeverRunsAgain) {
  ExpectFirst(1, 1);
  ExpectFirst(2, 1);
  End(1, "one");
  EXPECT_EQ(answers_.kept(), 2u);
  ExpectFirst(3, 2);
  EXPECT_EQ(answers_.kept(), 2u);
  Caller& late = ExpectAgain(1, 1);  // it was under way for a long time
  ASSERT_TRUE(AwaitEnd(late));
  EXPECT_EQ(late.status.app_code(), kAnswerGone);
  ExpectFirst(4, 4);  // the worker has given up what runs
  End(2, "two");
  End(3, "three");
  EXPECT_EQ(answers_.kept(), 1u);
}

TEST_F(AnswersTest, OtherClientsHaveNumbersOfTheirOwn) {
  ExpectFirst(1, 1);
  rpc::Reply reply = Come();
  EXPECT_TRUE(answers_.Begin({2, 1, 1}, &reply));
  running_.push_back(std::move(reply));
}

TEST_F(AnswersTest, APeerThatTakesAllNumbersIsRefused) {
  Caller& wide = ExpectAgain(1 + Answers::kOpenMax, 1);
  ASSERT_TRUE(AwaitEnd(wide));
  EXPECT_EQ(wide.status.code(), Code::kOverloaded);
  rpc::Reply none;
  for (uint64_t client = 1; client <= Answers::kClientsMax; ++client)
    EXPECT_TRUE(answers_.Begin({client, 1, 1}, &none));
  rpc::Reply reply = Come();
  EXPECT_FALSE(answers_.Begin({Answers::kClientsMax + 1, 1, 1}, &reply));
  ASSERT_TRUE(AwaitEnd(calls_.back()));
  EXPECT_EQ(calls_.back().status.code(), Code::kOverloaded);
}

}  // namespace
}  // namespace fusewire::tf
