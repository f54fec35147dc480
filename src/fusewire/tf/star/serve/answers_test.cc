// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/serve/answers.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fusewire/base/clock.h"
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

// ---- for snapshots ----

TEST_F(AnswersTest, RunsThatHaveEndedAreCollectedWithTheirAnswers) {
  ExpectFirst(1, 1);
  ExpectFirst(2, 1);
  ExpectFirst(3, 1);
  End(1, "one", 100);
  End(2, "two", Answers::kKeptBytesMax);
  std::map<uint64_t, KeptClient> clients;
  answers_.Collect(&clients);
  ASSERT_EQ(clients.size(), 1u);
  EXPECT_EQ(clients[1].client, 1u);
  EXPECT_EQ(clients[1].open, 1u);
  ASSERT_EQ(clients[1].runs.size(), 2u);  // the third has not ended
  EXPECT_EQ(clients[1].runs[0].number, 1u);
  EXPECT_TRUE(clients[1].runs[0].is_kept);
  EXPECT_EQ(clients[1].runs[0].head, "one");
  EXPECT_EQ(clients[1].runs[0].body, std::vector<std::string>{std::string(100, 'b')});
  EXPECT_EQ(clients[1].runs[1].number, 2u);
  EXPECT_FALSE(clients[1].runs[1].is_kept);
  ExpectFirst(4, 3);
  clients.clear();
  answers_.Collect(&clients);
  EXPECT_EQ(clients[1].open, 3u);
  EXPECT_TRUE(clients[1].runs.empty());
}

TEST_F(AnswersTest, EndsAreAwaitedOfRunsThatHaveBegunOnly) {
  EXPECT_TRUE(answers_.AwaitEnds(0));
  ExpectFirst(1, 1);
  ExpectFirst(2, 1);
  EXPECT_FALSE(answers_.AwaitEnds(Clock::Real()->NowNs() + kMillisecondNs));
  bool has_ended = false;
  std::thread waiting([&] { has_ended = answers_.AwaitEnds(Clock::Real()->NowNs() + 60 * kSecondNs); });
  while (answers_.awaiting() == 0) std::this_thread::yield();
  ExpectFirst(3, 1);  // nobody waits for it
  End(1, "one");
  EXPECT_EQ(answers_.awaiting(), 1);
  End(2, "two");
  waiting.join();
  EXPECT_TRUE(has_ended);
  EXPECT_FALSE(answers_.AwaitEnds(0));
}

class RestoredAnswersTest : public AnswersTest {
 protected:
  RestoredAnswersTest() { restored_.Set({{1, 3, {{3, true, "three", {"b", ""}}, {5, false, "", {}}}}, {2, 1, {}}}); }
  bool IsAnswered(const Ticket& ticket) {
    rpc::Reply reply = Come();
    const bool has_answered = restored_.Answer(ticket, &reply);
    EXPECT_EQ(has_answered, !reply);
    if (!has_answered) running_.push_back(std::move(reply));
    EXPECT_TRUE(!has_answered || AwaitEnd(calls_.back()));
    return has_answered;
  }
  std::vector<uint64_t> Numbers() {
    std::map<uint64_t, KeptClient> clients;
    restored_.Collect(&clients);
    std::vector<uint64_t> numbers;
    for (const auto& one : clients) {
      for (const KeptRun& run : one.second.runs) numbers.push_back(run.number);
    }
    return numbers;
  }

  RestoredAnswers restored_;
};

TEST_F(RestoredAnswersTest, ARunThatEndedBeforeTheRestartIsAnsweredHoweverOftenItComes) {
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_TRUE(IsAnswered({1, 3, 3}));
    EXPECT_TRUE(calls_.back().status.ok());
    EXPECT_EQ(calls_.back().reply_head, "three");
    ASSERT_EQ(calls_.back().reply_body.size(), 2u);
    EXPECT_EQ(calls_.back().reply_body[0].size(), 1u);
  }
  EXPECT_TRUE(IsAnswered({1, 5, 3}));
  EXPECT_EQ(calls_.back().status.app_code(), kAnswerGone);  // and it does not run again
}

TEST_F(RestoredAnswersTest, OtherRunsAreRun) {
  EXPECT_FALSE(IsAnswered({1, 4, 3}));
  EXPECT_FALSE(IsAnswered({1, 6, 3}));
  EXPECT_FALSE(IsAnswered({2, 3, 1}));
  EXPECT_FALSE(IsAnswered({3, 3, 3}));
}

TEST_F(RestoredAnswersTest, TheyAreInTheNextSnapshotUntilTheClientHasThem) {
  EXPECT_EQ(Numbers(), (std::vector<uint64_t>{3, 5}));
  EXPECT_FALSE(IsAnswered({1, 6, 5}));
  EXPECT_EQ(Numbers(), std::vector<uint64_t>{5});
  EXPECT_FALSE(IsAnswered({1, 7, 6}));
  EXPECT_EQ(Numbers(), std::vector<uint64_t>{});
}

}  // namespace
}  // namespace fusewire::tf
