// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/peer/wire_call.h"

#include <string>

#include "fusewire/tf/peer/recorded_test.h"
#include "fusewire/tf/peer/world_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tensorflow/core/protobuf/worker.pb.h>

namespace fusewire::tf {
namespace {

using testing::HasSubstr;

// One call that the peer answers as the test likes.
class WireCallTest : public testing::Test {
 protected:
  void Start() {
    tensorflow::GetStepSequenceRequest request;
    request.add_graph_key(41);
    (new WireCall(channel_, kRunPart, "GetStepSequence", &options_, &response_, [this](const TfStatus& status) {
      status_ = status;
      ++ends_;
    }))->Start(request);
    ASSERT_TRUE(world_.AwaitAsked(1));
  }
  void Answer(const std::string& head, Buffers body = Buffers()) {
    world_.asked[0].reply.Send(Status::Ok(), head, std::move(body));
    ASSERT_TRUE(AwaitEnd());
  }
  bool AwaitEnd() {
    return world_.RunUntil([this] { return ends_ > 0; });
  }
  std::string message() const { return std::string(status_.message()); }

  DataWorld world_;
  ChannelPtr channel_ = world_.MakeChannel();
  tensorflow::CallOptions options_;
  tensorflow::GetStepSequenceResponse response_;
  TfStatus status_;
  int ends_ = 0;
};

TEST_F(WireCallTest, CarriesARequestAndItsAnswer) {
  Start();
  tensorflow::GetStepSequenceRequest seen;
  ASSERT_TRUE(ParseProto(ConstBytes(world_.asked[0].head), world_.asked[0].body, &seen));
  EXPECT_EQ(seen.graph_key(0), 41);
  tensorflow::GetStepSequenceResponse answer;
  answer.add_step_sequence()->set_next_step_id(42);
  std::string head;
  Buffers body;
  AppendTfStatus(TfStatus(), &head);
  ASSERT_TRUE(AppendProto(answer, &head, &body));
  Answer(head, std::move(body));
  EXPECT_TRUE(status_.ok()) << status_;
  ASSERT_EQ(response_.step_sequence_size(), 1);
  EXPECT_EQ(response_.step_sequence(0).next_step_id(), 42);
}

TEST_F(WireCallTest, IsRecordedUntilItsEnd) {
  Recorded recorded;
  Start();
  ASSERT_EQ(recorded.Read().size(), 1u);
  EXPECT_EQ(recorded.Read()[0].words, "call worker ps:0 GetStepSequence");
  EXPECT_EQ(recorded.open(), 1u);
  std::string head;
  AppendTfStatus(absl::AbortedError("the step was stopped"), &head);
  Answer(head);
  EXPECT_EQ(recorded.open(), 0u);
}

TEST_F(WireCallTest, AnErrorOfThePeerNamesItsTaskAndTheMethod) {
  Start();
  std::string head;
  AppendTfStatus(absl::AbortedError("the step was stopped"), &head);
  Answer(head);
  EXPECT_TRUE(absl::IsAborted(status_)) << status_;
  EXPECT_THAT(message(), HasSubstr("the step was stopped"));
  EXPECT_THAT(message(),
              HasSubstr(std::string(kPeerTask) + " while calling /tensorflow.WorkerService/GetStepSequence"));
}

TEST_F(WireCallTest, AMalformedAnswerNamesWhatItShouldBe) {
  Start();
  std::string head;
  AppendTfStatus(TfStatus(), &head);
  Answer(head + "\xff\xff\xff");
  EXPECT_TRUE(absl::IsDataLoss(status_)) << status_;
  EXPECT_THAT(message(), HasSubstr("3 bytes in its head and 0 segments is no tensorflow.GetStepSequenceResponse"));
}

TEST_F(WireCallTest, AStatusThatCannotBeReadIsNamed) {
  Start();
  Answer("\x63");
  EXPECT_TRUE(absl::IsDataLoss(status_)) << status_;
  EXPECT_THAT(message(), HasSubstr("its code is 99"));
}

TEST_F(WireCallTest, ACancelEndsItAndIsSentToThePeer) {
  Start();
  options_.StartCancel();
  ASSERT_TRUE(AwaitEnd());
  EXPECT_TRUE(absl::IsCancelled(status_)) << status_;
  world_.world.RunFor(kSecondNs);
  EXPECT_TRUE(world_.asked[0].unwanted);
  EXPECT_EQ(ends_, 1);
}

TEST_F(WireCallTest, ItsOptionsHoldItsTime) {
  options_.SetTimeout(500);
  Start();
  world_.world.RunFor(400 * kMillisecondNs);
  EXPECT_EQ(ends_, 0);
  ASSERT_TRUE(AwaitEnd());
  EXPECT_TRUE(absl::IsDeadlineExceeded(status_)) << status_;
}

TEST_F(WireCallTest, APeerThatDiesEndsItAndItsChannel) {
  Start();
  world_.KillPeer();
  ASSERT_TRUE(AwaitEnd());
  EXPECT_TRUE(absl::IsUnavailable(status_)) << status_;
  EXPECT_FALSE(channel_->alive());
}

}  // namespace
}  // namespace fusewire::tf
