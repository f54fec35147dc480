// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The operation of star/call/run_op.cc beside a parameter server that is killed, and comes back with what it had.
#include <memory>
#include <utility>
#include <vector>

#include "fusewire/tf/star/call/run_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

using tensorflow::CancellationManager;
using testing::HasSubstr;

// A parameter server that keeps snapshots, and is killed.
class ReturnTest : public RunOpTest {
 protected:
  ReturnTest() : RunOpTest(0, 20 * kSecondNs) {
    on_.state = 7;
    on_.KnowPeer();
    channels_.push_back(on_.task.peer->channel());
  }
  // Before the answer to the run that has come last.
  void Kill() {
    on_.world.KillPeer();
    questions_ = 0;
    ASSERT_TRUE(on_.world.RunUntil([this] { return !on_.grpc().awaiting.empty(); }));
  }
  void Restart(uint64_t state = 7) {
    on_.world.RestartPeer();
    on_.state = state;
    on_.grpc().AnswerStatus(TfStatus());
    on_.AnswerPort();
    channels_.push_back(on_.task.peer->channel());
  }
  static Ticket TicketOf(const DataWorld::Asked& run) { return HeadOf(run).ticket; }

 private:
  std::vector<ChannelPtr> channels_;  // they end here, and not on a thread of TensorFlow's
};

TEST_F(ReturnTest, TheRunIsMadeAgainThereWithItsTicket) {
  PlaceIt(Again::kTicket);
  auto running = Start();
  const Ticket ticket = TicketOf(*Next(kRunPart));
  Kill();
  EXPECT_EQ(running->ends.count(), 0);
  Restart();
  SayPlaced(Next(kPlacePart), kPart + 1, Again::kTicket);
  DataWorld::Asked* again = Next(kRunPart);
  EXPECT_EQ(TicketOf(*again).client, ticket.client);
  EXPECT_EQ(TicketOf(*again).number, ticket.number);
  SayResult(again, Ramp(2, 7));
  ASSERT_TRUE(AwaitEnd(*running));
  ASSERT_TRUE(running->status().ok()) << running->status();
  EXPECT_EQ(running->output().flat<float>()(1), 8);
  // The next step has the next ticket, and nothing before it is open.
  auto next = Start();
  DataWorld::Asked* run = Next(kRunPart);
  EXPECT_EQ(TicketOf(*run).number, ticket.number + 1);
  EXPECT_EQ(TicketOf(*run).open, ticket.number + 1);
  SayResult(run, Ramp(1, 1));
  ASSERT_TRUE(AwaitEnd(*next));
}

TEST_F(ReturnTest, AStepThatBeginsMeanwhileWaitsToo) {
  PlaceIt(Again::kTicket);
  on_.world.KillPeer();
  questions_ = 0;
  auto running = Start();
  ASSERT_TRUE(on_.world.RunUntil([this] { return !on_.grpc().awaiting.empty(); }));
  Restart();
  SayPlaced(Next(kPlacePart), kPart, Again::kTicket);
  SayResult(Next(kRunPart), Ramp(1, 1));
  ASSERT_TRUE(AwaitEnd(*running));
  EXPECT_TRUE(running->status().ok()) << running->status();
}

TEST_F(ReturnTest, ARunThatKillsTheServerEachTimeEnds) {
  PlaceIt(Again::kTicket);
  auto running = Start();
  Next(kRunPart);
  for (int returns = 0; returns < 16; ++returns) {
    Kill();
    Restart();
    SayPlaced(Next(kPlacePart), kPart, Again::kTicket);
    Next(kRunPart);
  }
  Kill();
  Restart();
  ASSERT_TRUE(AwaitEnd(*running));
  EXPECT_TRUE(absl::IsUnavailable(running->status())) << running->status();
}

TEST_F(ReturnTest, WithoutWhatItHadTheStepEndsAsItWouldHave) {
  PlaceIt(Again::kTicket);
  auto running = Start();
  Next(kRunPart);
  Kill();
  Restart(/*state=*/8);
  ASSERT_TRUE(AwaitEnd(*running));
  EXPECT_TRUE(absl::IsUnavailable(running->status())) << running->status();
  EXPECT_THAT(running->message(), HasSubstr("RunPart"));
}

TEST_F(ReturnTest, IfItStaysAwayTheStepEnds) {
  PlaceIt(Again::kTicket);
  auto running = Start();
  Next(kRunPart);
  Kill();
  on_.grpc().AnswerStatus(TfStatus(absl::DeadlineExceededError("20 s")));
  on_.grpc().Answer(TfStatus(absl::UnavailableError("connection refused")));
  ASSERT_TRUE(AwaitEnd(*running));
  EXPECT_TRUE(absl::IsUnavailable(running->status())) << running->status();
}

TEST_F(ReturnTest, ACancelledStepWaitsNoLonger) {
  PlaceIt(Again::kTicket);
  CancellationManager cancellation;
  auto running = Start(&cancellation);
  Next(kRunPart);
  Kill();
  cancellation.StartCancel();
  ExpectCancelled(running.get());
  Restart();  // too late, and harmless
  Settle();
}

// One part leaves a value for the next one of its step, and the server is killed between them.
class LeftValuesTest : public ReturnTest {
 protected:
  static TfStatus Gone() {
    TfStatus gone = absl::AbortedError("a value is gone");
    gone.SetPayload(kValuesGone, absl::Cord());
    return gone;
  }
  std::unique_ptr<RunningOp> Run(tensorflow::OpKernel* kernel) {
    if (step_ == nullptr) step_ = std::make_shared<Step>(&on_.task, ++last_step_, "graph");
    return std::make_unique<RunningOp>(step_, &on_.task, kernel, last_step_, Ramp(3, 1));
  }
  // The first part has run.
  void Leave(Again again) {
    first_ = Run(leaver_.get());
    SayPlaced(Next(kPlacePart), kPart, again);
    left_ = TicketOf(*Next(kRunPart));
    SayResult(&on_.world.asked.back(), Ramp(1, 1));
    ASSERT_TRUE(AwaitEnd(*first_));
  }
  // The second part comes to the server that is back.
  void Take() {
    second_ = Run(taker_.get());
    ASSERT_TRUE(on_.world.RunUntil([this] { return !on_.grpc().awaiting.empty(); }));
    Restart();
    SayPlaced(Next(kPlacePart), kPart + 1, Again::kTicket);
    taken_ = TicketOf(*Next(kRunPart));
    AnswerWith(&on_.world.asked.back(), Gone());
  }
  void KillServer() {
    on_.world.KillPeer();
    questions_ = 0;
  }

  const std::unique_ptr<tensorflow::OpKernel> leaver_ = MakeRunOp(on_.task.cpu(), "leaver", false, /*kept=*/1);
  const std::unique_ptr<tensorflow::OpKernel> taker_ = MakeRunOp(on_.task.cpu(), "taker", false, 0, /*taken=*/1);
  StepPtr step_;
  std::unique_ptr<RunningOp> first_, second_;
  Ticket left_, taken_;
};

TEST_F(LeftValuesTest, APartThatOnlyReadsLeavesThemAgain) {
  Leave(Again::kLeaves);
  KillServer();
  Take();
  SayPlaced(Next(kPlacePart), kPart + 2, Again::kLeaves);
  DataWorld::Asked* again = Next(kRunPart);
  EXPECT_GT(TicketOf(*again).number, left_.number);  // another run
  SayResult(again, Ramp(10'000, 1));                 // which nobody wants
  DataWorld::Asked* run = Next(kRunPart);
  EXPECT_GT(TicketOf(*run).number, taken_.number);
  SayResult(run, Ramp(2, 7));
  ASSERT_TRUE(AwaitEnd(*second_));
  ASSERT_TRUE(second_->status().ok()) << second_->status();
  EXPECT_EQ(second_->output().flat<float>()(1), 8);
  EXPECT_EQ(first_->ends.count(), 1);
}

TEST_F(LeftValuesTest, APartThatWritesComesAgainWithItsTicket) {
  Leave(Again::kTicket);
  KillServer();
  Take();
  EXPECT_EQ(taken_.open, left_.number);  // it stays open, so that each snapshot has it
  SayPlaced(Next(kPlacePart), kPart + 2, Again::kTicket);
  DataWorld::Asked* again = Next(kRunPart);
  EXPECT_EQ(TicketOf(*again).number, left_.number);
  SayResult(again, Ramp(1, 1));
  SayResult(Next(kRunPart), Ramp(2, 7));
  ASSERT_TRUE(AwaitEnd(*second_));
  EXPECT_TRUE(second_->status().ok()) << second_->status();
  // With the step, the ticket ends.
  first_.reset();
  second_.reset();
  step_.reset();
  auto next = Run(leaver_.get());
  const Ticket last = TicketOf(*Next(kRunPart));
  EXPECT_EQ(last.open, last.number);
  SayResult(&on_.world.asked.back(), Ramp(1, 1));
  ASSERT_TRUE(AwaitEnd(*next));
}

// The step's context may live on.
TEST_F(LeftValuesTest, AfterTheStepsEndTheTicketIsGivenBack) {
  Leave(Again::kTicket);
  const StepPtr ended = std::exchange(step_, nullptr);
  (*ended)->step().DropLeavers();
  auto next = Run(leaver_.get());
  const Ticket last = TicketOf(*Next(kRunPart));
  EXPECT_GT(last.number, left_.number);
  EXPECT_EQ(last.open, last.number);
  SayResult(&on_.world.asked.back(), Ramp(1, 1));
  ASSERT_TRUE(AwaitEnd(*next));
}

TEST_F(LeftValuesTest, WhereTheSnapshotHasTheRunTheyAreLost) {
  Leave(Again::kTicket);
  KillServer();
  Take();
  SayPlaced(Next(kPlacePart), kPart + 2, Again::kTicket);
  SayResult(Next(kRunPart), Ramp(1, 1));  // its kept answer
  AnswerWith(Next(kRunPart), Gone());
  ASSERT_TRUE(AwaitEnd(*second_));
  EXPECT_TRUE(absl::IsAborted(second_->status())) << second_->status();
}

TEST_F(LeftValuesTest, IfThatFailsTheStepSaysWhatIsGone) {
  Leave(Again::kLeaves);
  KillServer();
  Take();
  AnswerWith(Next(kPlacePart), absl::InternalError("no"));
  ASSERT_TRUE(AwaitEnd(*second_));
  EXPECT_TRUE(absl::IsAborted(second_->status())) << second_->status();
  EXPECT_THAT(second_->message(), HasSubstr("a value is gone"));
}

TEST_F(ReturnTest, APartThatMayWaitForOtherStepsEnds) {
  PlaceIt(Again::kNever);
  auto running = Start();
  Next(kRunPart);
  on_.world.KillPeer();
  ASSERT_TRUE(AwaitEnd(*running));
  EXPECT_TRUE(absl::IsUnavailable(running->status())) << running->status();
}

}  // namespace
}  // namespace fusewire::tf
