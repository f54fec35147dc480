// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/peer/channel.h"

#include <string>
#include <thread>
#include <vector>

#include "fusewire/tf/peer/recorded_test.h"
#include "fusewire/tf/peer/world_test.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tensorflow/core/framework/variant.h>
#include <tensorflow/core/framework/variant_encode_decode.h>

namespace fusewire::tf {
namespace {

using tensorflow::Tensor;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

class ChannelTest : public testing::Test {
 protected:
  // A one-way call holds the channel until its timeout.
  void TearDown() override { world_.world.RunFor(20 * kSecondNs); }

  // So many receives, begun together.
  std::vector<Ending>& Receive(size_t count) {
    endings_ = std::vector<Ending>(count);
    RecvGroup together;
    for (size_t i = 0; i < count; ++i) (new ProbeRecv(channel_, absl::StrCat("edge_", i), &endings_[i]))->Go();
    return endings_;
  }
  bool AwaitEnds() {
    return world_.RunUntil([this] {
      for (const Ending& ending : endings_) {
        if (ending.ends == 0) return false;
      }
      return true;
    });
  }
  // The peer's reading of the request.
  std::vector<std::string> EdgesOf(const std::string& head) {
    std::vector<Want> wants;
    TfStatus error;
    if (!library_.Read(head, &wants, &error)) return {"unknown keys"};
    EXPECT_TRUE(error.ok()) << error;
    std::vector<std::string> edges;
    for (const Want& want : wants) {
      EXPECT_EQ(want.step, kStep);
      edges.emplace_back(want.key->edge_name);
    }
    return edges;
  }
  // A chain of words about an answer is one of its own, and lives until it is sent.
  void Reply(size_t question, Answer& answer) {
    world_.asked[question].reply.Send(Status::Ok(), answer.head, std::move(answer.body));
  }
  void Forget(size_t question) {
    world_.asked[question].reply.Send(Status::Application(kUnknownKeys, "an unknown key number"));
  }

  DataWorld world_;
  ChannelPtr channel_ = world_.MakeChannel();
  KeyLibrary library_;
  std::vector<Ending> endings_;
};

TEST_F(ChannelTest, RequestsAGroupInOneCall) {
  auto& ends = Receive(4);
  ASSERT_TRUE(world_.AwaitAsked(1));
  EXPECT_THAT(EdgesOf(world_.asked[0].head), ElementsAre("edge_0", "edge_1", "edge_2", "edge_3"));
  // Ready tensors are sent first, in any order, large and small.
  Answer part;
  part.Dead(2).Value(1, Ramp(10'000, 5));
  world_.asked[0].reply.SendPart(part.head, std::move(part.body));
  ASSERT_TRUE(world_.RunUntil([&] { return ends[1].ends > 0; }));
  EXPECT_EQ(ends[0].ends, 0);
  ExpectRamp(ends[1], 10'000, 5);
  EXPECT_TRUE(ends[2].status.ok());
  EXPECT_TRUE(ends[2].is_dead);
  Answer rest;
  rest.Value(3, Ramp(3, 1)).Value(0, Ramp(20'000, 2));
  Reply(0, rest);
  ASSERT_TRUE(AwaitEnds());
  ExpectRamp(ends[0], 20'000, 2);
  ExpectRamp(ends[3], 3, 1);
  EXPECT_TRUE(channel_->alive());
  EXPECT_EQ(world_.asked.size(), 1u);
}

TEST_F(ChannelTest, ReceivesAreRecordedFromTheirRequestToTheirEnd) {
  Recorded recorded;
  auto& ends = Receive(2);
  ASSERT_TRUE(world_.AwaitAsked(1));
  std::vector<Recorded::One> all = recorded.Read();
  ASSERT_EQ(all.size(), 2u) << recorded.Words();
  EXPECT_EQ(all[0].words, "receive worker:0 ps:0 edge_0");
  EXPECT_EQ(all[0].seen.step, kStep);
  EXPECT_EQ(recorded.open(), 2u);
  Answer part;
  part.Value(0, Ramp(10'000, 5));
  world_.asked[0].reply.SendPart(part.head, std::move(part.body));
  ASSERT_TRUE(world_.RunUntil([&] { return ends[0].ends > 0; }));
  EXPECT_EQ(recorded.open(), 1u);
  world_.KillPeer();
  ASSERT_TRUE(AwaitEnds());
  all = recorded.Read();
  ASSERT_EQ(all.size(), 2u) << recorded.Words();
  EXPECT_EQ(recorded.open(), 0u);
  const bool is_first = all[0].seen.end == observe::End::kOk;  // they began at the same time
  const observe::Seen &arrived = all[is_first ? 0 : 1].seen, &lost = all[is_first ? 1 : 0].seen;
  EXPECT_EQ(arrived.bytes, 40'000u);
  EXPECT_GE(arrived.landed_ns, arrived.begun_ns);
  EXPECT_GE(arrived.ended_ns, arrived.landed_ns);
  EXPECT_EQ(lost.end, observe::End::kFailed);
  EXPECT_EQ(lost.landed_ns, 0);
}

TEST_F(ChannelTest, AReceiveByItselfGoesAtOnce) {
  endings_ = std::vector<Ending>(1);
  (new ProbeRecv(channel_, "alone", &endings_[0]))->Go();
  ASSERT_TRUE(world_.AwaitAsked(1));
  EXPECT_THAT(EdgesOf(world_.asked[0].head), ElementsAre("alone"));
  Reply(0, Answer().Value(0, Ramp(1, 9)));
  ASSERT_TRUE(AwaitEnds());
  ExpectRamp(endings_[0], 1, 9);
}

TEST_F(ChannelTest, SendsOneRequestForEachChannelOfAGroup) {
  ChannelPtr other = world_.MakeChannel();
  endings_ = std::vector<Ending>(4);
  {
    RecvGroup together;
    for (size_t i = 0; i < 4; ++i)
      (new ProbeRecv(i % 2 == 0 ? channel_ : other, absl::StrCat("edge_", i), &endings_[i]))->Go();
  }
  ASSERT_TRUE(world_.AwaitAsked(2));
  std::vector<std::vector<std::string>> edges;  // either may come first
  for (const DataWorld::Asked& asked : world_.asked) edges.push_back(EdgesOf(asked.head));
  EXPECT_THAT(edges, UnorderedElementsAre(ElementsAre("edge_0", "edge_2"), ElementsAre("edge_1", "edge_3")));
  for (size_t i = 0; i < 2; ++i) Reply(i, Answer().Dead(1).Dead(0));
  ASSERT_TRUE(AwaitEnds());
}

TEST_F(ChannelTest, AnErrorIsThatOfItsTensorAlone) {
  auto& ends = Receive(2);
  ASSERT_TRUE(world_.AwaitAsked(1));
  Reply(0, Answer().Error(1, absl::NotFoundError("no such edge")).Value(0, Ramp(2, 3)));
  ASSERT_TRUE(AwaitEnds());
  ExpectRamp(ends[0], 2, 3);
  EXPECT_TRUE(absl::IsNotFound(ends[1].status)) << ends[1].status;
  EXPECT_TRUE(channel_->alive());
}

TEST_F(ChannelTest, SendsAllKeysAgainToAPeerThatForgotThem) {
  auto& ends = Receive(2);
  ASSERT_TRUE(world_.AwaitAsked(1));
  Reply(0, Answer().Dead(0).Dead(1));
  ASSERT_TRUE(AwaitEnds());
  // The peer has both keys by now; then it drops its books.
  Receive(2);
  ASSERT_TRUE(world_.AwaitAsked(2));
  KeyLibrary empty;
  std::vector<Want> wants;
  TfStatus error;
  EXPECT_FALSE(empty.Read(world_.asked[1].head, &wants, &error));
  Forget(1);
  ASSERT_TRUE(world_.AwaitAsked(3));
  wants.clear();
  EXPECT_TRUE(empty.Read(world_.asked[2].head, &wants, &error));
  EXPECT_EQ(wants.size(), 2u);
  Reply(2, Answer().Value(0, Ramp(1, 1)).Value(1, Ramp(1, 2)));
  ASSERT_TRUE(AwaitEnds());
  ExpectRamp(ends[0], 1, 1);
  ExpectRamp(ends[1], 1, 2);
}

TEST_F(ChannelTest, GivesUpOnAPeerThatForgetsAgainAndAgain) {
  auto& ends = Receive(1);
  for (size_t question = 0; question < 4; ++question) {
    ASSERT_TRUE(world_.AwaitAsked(question + 1)) << question;
    EXPECT_EQ(ends[0].ends, 0);
    Forget(question);
  }
  ASSERT_TRUE(AwaitEnds());
  EXPECT_FALSE(ends[0].status.ok());
  EXPECT_EQ(world_.asked.size(), 4u);
}

TEST_F(ChannelTest, APeerThatDiesInMidQuestionEndsWhatIsLeft) {
  auto& ends = Receive(3);
  ASSERT_TRUE(world_.AwaitAsked(1));
  Answer part;
  part.Value(1, Ramp(1, 4));
  world_.asked[0].reply.SendPart(part.head, std::move(part.body));
  ASSERT_TRUE(world_.RunUntil([&] { return ends[1].ends > 0; }));
  world_.KillPeer();
  ASSERT_TRUE(AwaitEnds());
  ExpectRamp(ends[1], 1, 4);
  for (size_t i : {0, 2}) {
    EXPECT_TRUE(absl::IsUnavailable(ends[i].status)) << ends[i].status;
    EXPECT_THAT(std::string(ends[i].status.message()), HasSubstr(kPeerTask));
    EXPECT_EQ(ends[i].ends, 1);
  }
  EXPECT_FALSE(channel_->alive());  // the next caller gets another channel
}

TEST_F(ChannelTest, ABodyThatIsCutOffEndsWhatWasToLandThere) {
  auto& ends = Receive(2);
  ASSERT_TRUE(world_.AwaitAsked(1));
  transport::LoopbackFaults slow;
  slow.bytes_per_second = 1'000'000;
  world_.world.SetFaultsBetween("ps", "worker", slow);
  Reply(0, Answer().Value(0, Ramp(1'000'000, 0)).Dead(1));
  world_.world.RunFor(kSecondNs);  // of four that it takes
  EXPECT_EQ(ends[0].ends, 0);
  world_.KillPeer();
  ASSERT_TRUE(AwaitEnds());
  for (const Ending& end : ends) {
    EXPECT_EQ(end.ends, 1);
    EXPECT_TRUE(absl::IsUnavailable(end.status)) << end.status;
  }
}

TEST_F(ChannelTest, AnswersThatMakeNoSenseAreRefused) {
  Answer no_error;
  no_error.Begin(0, kError).head.push_back('\xff');
  Answer cut_off;
  cut_off.Value(0, Ramp(3, 1)).head.resize(cut_off.head.size() - 1);
  Answer surplus;
  surplus.Dead(0).body.push_back(Buffer::CopyOf(ConstBytes("surplus", 7)));
  Answer bare;
  bare.Value(0, Ramp(10'000, 1)).body.clear();
  std::vector<Answer> answers(2);
  answers[0].Dead(2);  // was not requested
  answers[1].Begin(0, kError + 1);
  for (Answer* answer : {&no_error, &cut_off, &surplus, &bare}) answers.push_back(std::move(*answer));
  size_t question = 0;
  for (Answer& answer : answers) {
    SCOPED_TRACE(question);
    channel_ = world_.MakeChannel();
    auto& ends = Receive(2);
    ASSERT_TRUE(world_.AwaitAsked(question + 1));
    Reply(question++, answer);
    ASSERT_TRUE(AwaitEnds());
    for (const Ending& end : ends) {
      EXPECT_EQ(end.ends, 1);
      EXPECT_FALSE(end.status.ok());
    }
  }
}

TEST_F(ChannelTest, ADuplicateAnswerIsRefusedAndTheFirstStands) {
  auto& ends = Receive(2);
  ASSERT_TRUE(world_.AwaitAsked(1));
  Answer part;
  part.Value(0, Ramp(1, 6));
  world_.asked[0].reply.SendPart(part.head, std::move(part.body));
  Answer again;
  again.Value(0, Ramp(1, 7)).Value(1, Ramp(1, 8));
  Reply(0, again);
  ASSERT_TRUE(AwaitEnds());
  ExpectRamp(ends[0], 1, 6);
  EXPECT_EQ(ends[1].ends, 1);
  EXPECT_FALSE(ends[1].status.ok());
}

TEST_F(ChannelTest, AnOmittedAnswerIsAnError) {
  auto& ends = Receive(2);
  ASSERT_TRUE(world_.AwaitAsked(1));
  Reply(0, Answer().Dead(1));
  ASSERT_TRUE(AwaitEnds());
  EXPECT_TRUE(ends[1].is_dead);
  EXPECT_THAT(std::string(ends[0].status.message()), HasSubstr("without an answer"));
}

TEST_F(ChannelTest, AnAbortEndsAReceiveOnceAndItsAnswerIsDropped) {
  endings_ = std::vector<Ending>(2);
  auto* aborted = new ProbeRecv(channel_, "edge_0", &endings_[0]);
  aborted->Ref();
  {
    RecvGroup together;
    aborted->Go();
    (new ProbeRecv(channel_, "edge_1", &endings_[1]))->Go();
  }
  ASSERT_TRUE(world_.AwaitAsked(1));
  aborted->Abort(absl::CancelledError("the step was cancelled"));
  aborted->Abort(absl::InternalError("too late"));
  ASSERT_TRUE(world_.RunUntil([this] { return endings_[0].ends > 0; }));
  EXPECT_TRUE(absl::IsCancelled(endings_[0].status));
  EXPECT_EQ(endings_[1].ends, 0);
  Reply(0, Answer().Value(0, Ramp(10'000, 0)).Value(1, Ramp(2, 5)));
  ASSERT_TRUE(AwaitEnds());
  ExpectRamp(endings_[1], 2, 5);
  EXPECT_EQ(endings_[0].ends, 1);
  aborted->Unref();
}

TEST_F(ChannelTest, AnAnswerThatComesTooLateNeedsNoDevice) {
  auto device = tensorflow::DeviceFactory::NewDevice("CPU", tensorflow::SessionOptions(), kOwnTask);
  endings_ = std::vector<Ending>(5);
  std::vector<ProbeRecv*> recvs;
  {
    RecvGroup together;
    for (size_t i = 0; i < 5; ++i) {
      recvs.push_back(new ProbeRecv(channel_, absl::StrCat("edge_", i), &endings_[i], device.get()));
      recvs.back()->Ref();
      recvs.back()->Go();
    }
  }
  ASSERT_TRUE(world_.AwaitAsked(1));
  for (ProbeRecv* recv : recvs) recv->Abort(absl::CancelledError("the session was closed"));
  ASSERT_TRUE(AwaitEnds());
  device.reset();
  Tensor strings(tensorflow::DT_STRING, tensorflow::TensorShape({2}));
  Tensor variant(tensorflow::DT_VARIANT, tensorflow::TensorShape({}));
  variant.scalar<tensorflow::Variant>()() = Ramp(3, 1);
  Answer late;
  late.Value(0, Ramp(0, 0)).Value(1, Ramp(3, 1)).Value(2, Ramp(10'000, 1)).Value(3, strings).Value(4, variant);
  Reply(0, late);
  world_.world.RunFor(kSecondNs);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(endings_[i].ends, 1);
    recvs[i]->Unref();
  }
  EXPECT_TRUE(channel_->alive());
}

TEST_F(ChannelTest, AReceiveThatIsAbortedEarlyIsNotRequested) {
  endings_ = std::vector<Ending>(2);
  auto* aborted = new ProbeRecv(channel_, "edge_0", &endings_[0]);
  aborted->Abort(absl::CancelledError("the step was cancelled"));
  {
    RecvGroup together;
    aborted->Go();
    (new ProbeRecv(channel_, "edge_1", &endings_[1]))->Go();
  }
  ASSERT_TRUE(world_.AwaitAsked(1));
  EXPECT_TRUE(absl::IsCancelled(endings_[0].status));
  EXPECT_THAT(EdgesOf(world_.asked[0].head), ElementsAre("edge_1"));
  Reply(0, Answer().Dead(0));
  ASSERT_TRUE(AwaitEnds());
  EXPECT_EQ(endings_[0].ends, 1);
}

TEST_F(ChannelTest, CleansUpStepsTogetherAndEachOnce) {
  for (int64_t step = 0; step < 300; ++step) channel_->CleanUp(step);
  ASSERT_TRUE(world_.AwaitAsked(2));
  std::vector<uint64_t> steps;
  for (const DataWorld::Asked& asked : world_.asked) {
    EXPECT_EQ(asked.method, kCleanupGraph);
    VarReader reader{ConstBytes(asked.head)};
    uint64_t count = reader.Varint();
    EXPECT_LE(count, 256u);
    for (uint64_t i = 0; i < count; ++i) steps.push_back(reader.Fixed64());
    EXPECT_TRUE(reader.ok());
    EXPECT_TRUE(reader.done());
  }
  ASSERT_EQ(steps.size(), 300u);
  for (uint64_t step = 0; step < 300; ++step) EXPECT_EQ(steps[step], step);
  world_.world.RunFor(kSecondNs);
  EXPECT_EQ(world_.asked.size(), 2u);
}

TEST_F(ChannelTest, ACleanupThatTravelsWithACallIsNotSentAgain) {
  channel_->CleanUp(5);
  std::string head;
  channel_->TakeCleanups(&head);
  VarReader reader{ConstBytes(head)};
  EXPECT_EQ(reader.Varint(), 1u);
  EXPECT_EQ(reader.Fixed64(), 5u);
  world_.world.RunFor(kSecondNs);
  EXPECT_TRUE(world_.asked.empty());
}

TEST_F(ChannelTest, AnAbortOfTheStepIsTold) {
  channel_->AbortStep(-3);
  ASSERT_TRUE(world_.AwaitAsked(1));
  EXPECT_EQ(world_.asked[0].method, kAbortStep);
  VarReader reader{ConstBytes(world_.asked[0].head)};
  EXPECT_EQ(static_cast<int64_t>(reader.Fixed64()), -3);
  Answer nothing;
  Reply(0, nothing);
}

TEST(Channel, WaitsForAPeerAsLongAsItsPatience) {
  DataWorld world(/*has_peer=*/false);
  ChannelPtr channel = world.MakeChannel();
  Ending ending;
  (new ProbeRecv(channel, "edge", &ending))->Go();
  const int64_t begun_ns = world.world.clock()->NowNs();
  ASSERT_TRUE(world.RunUntil([&] { return ending.ends > 0; }));
  EXPECT_TRUE(absl::IsUnavailable(ending.status)) << ending.status;
  EXPECT_GE(world.world.clock()->NowNs() - begun_ns, 2 * kSecondNs - 10 * kMillisecondNs);
  EXPECT_LT(world.world.clock()->NowNs() - begun_ns, 10 * kSecondNs);
}

TEST(Channel, IsLostIfTheNewOwnerOfTheTaskDoesNotAnswer) {
  for (uint64_t epoch : {1, 2}) {
    DataWorld world;
    world.world.PauseHost("ps");
    Channel::Options options = world.ChannelOptions();
    options.epoch = epoch;
    options.patience_ns = 0;
    ChannelPtr channel = Channel::Make(*world.worker, std::move(options));
    Ending ending;
    (new ProbeRecv(channel, "edge", &ending))->Go();
    ASSERT_TRUE(world.RunUntil([&] { return ending.ends > 0; }));
    EXPECT_TRUE(absl::IsDeadlineExceeded(ending.status)) << ending.status;
    EXPECT_EQ(HasLost(*channel, Status::Timeout("no greeting")), epoch == 2);
    world.world.ResumeHost("ps");
  }
}

TEST(Channel, TurnsAnotherIncarnationAway) {
  DataWorld world;
  Channel::Options options = world.ChannelOptions();
  options.incarnation = world.incarnation + 1;
  ChannelPtr channel = Channel::Make(*world.worker, std::move(options));
  Ending ending;
  (new ProbeRecv(channel, "edge", &ending))->Go();
  ASSERT_TRUE(world.RunUntil([&] { return ending.ends > 0; }));
  EXPECT_FALSE(ending.status.ok());
  EXPECT_TRUE(world.asked.empty());
  EXPECT_FALSE(channel->alive());
}

// ---- tickets ----

TEST(TicketBook, TheOldestThatIsOutIsOpen) {
  TicketBook book;
  const Ticket one = book.Take(), two = book.Take(), three = book.Take();
  EXPECT_EQ(one.number, 1u);
  EXPECT_EQ(three.number, 3u);
  EXPECT_EQ(three.open, 1u);
  book.GiveBack(two);
  EXPECT_EQ(book.Take().open, 1u);
  book.GiveBack(one);
  const Ticket five = book.Take();
  EXPECT_EQ(five.number, 5u);
  EXPECT_EQ(five.open, 3u);
  EXPECT_EQ(five.client, one.client);
}

TEST(TicketBook, OthersAreOtherClients) {
  TicketBook one, other;
  EXPECT_NE(one.Take().client, other.Take().client);
}

TEST(TicketBook, ServesManyThreads) {
  TicketBook book;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&book] {
      for (int turn = 0; turn < 2000; ++turn) {
        const Ticket ticket = book.Take();
        EXPECT_LE(ticket.open, ticket.number);
        book.GiveBack(ticket);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Ticket last = book.Take();
  EXPECT_EQ(last.number, 8001u);
  EXPECT_EQ(last.open, 8001u);
}

}  // namespace
}  // namespace fusewire::tf
