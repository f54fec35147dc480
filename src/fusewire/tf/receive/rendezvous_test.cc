// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Tests: receive/step_context.cc.
#include "fusewire/tf/receive/rendezvous.h"

#include <string>
#include <vector>

#include "fusewire/tf/receive/step_test.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tensorflow/core/framework/cancellation.h>

namespace fusewire::tf {
namespace {

using tensorflow::CancellationManager;
using tensorflow::Tensor;
using testing::HasSubstr;

constexpr const char* kGraph = "graph";

class RendezvousTest : public testing::Test {
 protected:
  bool AwaitEnd(const Ending& ending) {
    return on_.world.RunUntil([&ending] { return ending.ends > 0; });
  }
  // On a thread that is not the world's.
  bool AwaitEndElsewhere(const Ending& ending) {
    return on_.world.RunUntilWithThreads([&ending] { return ending.ends > 0; });
  }
  // Of the peer, to one of its questions.
  void Reply(size_t question, Answer& answer) {
    on_.world.asked[question].reply.Send(Status::Ok(), answer.head, std::move(answer.body));
  }
  // All requests under way have arrived.
  void Settle() { on_.world.world.RunFor(kSecondNs); }
  std::string Message(const Ending& ending) { return std::string(ending.status.message()); }
  // A step of this graph, whose receives are these.
  void RunStep(const std::vector<std::string>& edges) {
    Step step(&on_.task, ++last_step_, kGraph);
    for (const std::string& edge : edges) {
      const size_t question = on_.world.asked.size();
      Ending ending;
      step.Receive(edge, &ending);
      ASSERT_TRUE(on_.world.AwaitAsked(question + 1));
      Reply(question, Answer().Value(0, Ramp(3, 1)));
      ASSERT_TRUE(AwaitEnd(ending));
      ExpectRamp(ending, 3, 1);
    }
  }

  StepWorld on_;
  int64_t last_step_ = 1000;
};

TEST_F(RendezvousTest, AReceiveWaitsForTheWayAndGoesOverTheWire) {
  Step step(&on_.task);
  Ending ending;
  step.Receive("edge", &ending);
  ASSERT_EQ(on_.grpc().asked.size(), 1u);  // for the port
  EXPECT_TRUE(on_.world.asked.empty());
  on_.AnswerPort();
  ASSERT_TRUE(on_.world.AwaitAsked(1));
  EXPECT_EQ(ending.ends, 0);
  Reply(0, Answer().Value(0, Ramp(10'000, 4)));
  ASSERT_TRUE(AwaitEnd(ending));
  ExpectRamp(ending, 10'000, 4);
  EXPECT_TRUE(on_.grpc().receiving.empty());
}

TEST_F(RendezvousTest, AFailedSearchEndsTheReceiveOnceWithTheReason) {
  Step step(&on_.task);
  Ending endings[2];
  for (Ending& ending : endings) step.Receive("edge", &ending);
  on_.grpc().Answer(TfStatus(absl::UnavailableError("connection refused")));
  for (const Ending& ending : endings) {
    EXPECT_EQ(ending.ends, 1);
    EXPECT_TRUE(absl::IsUnavailable(ending.status)) << ending.status;
    EXPECT_THAT(Message(ending), HasSubstr("connection refused"));
  }
  step->StartAbort(absl::AbortedError("too late"));
  Settle();
  EXPECT_EQ(endings[0].ends, 1);
}

TEST_F(RendezvousTest, AnAbortEndsTheSearchForTheWay) {
  CancellationManager cancellation;
  Step step(&on_.task);
  Ending cancelled, aborted, late;
  step.Receive("cancelled", &cancelled, &cancellation);
  step.Receive("aborted", &aborted);
  cancellation.StartCancel();
  ASSERT_TRUE(AwaitEndElsewhere(cancelled));
  EXPECT_TRUE(absl::IsCancelled(cancelled.status)) << cancelled.status;
  EXPECT_EQ(aborted.ends, 0);
  step->StartAbort(absl::FailedPreconditionError("the reason"));
  ASSERT_TRUE(AwaitEndElsewhere(aborted));
  EXPECT_THAT(Message(aborted), HasSubstr("the reason"));
  step.Receive("late", &late);
  ASSERT_TRUE(AwaitEndElsewhere(late));
  EXPECT_THAT(Message(late), HasSubstr("the reason"));
  on_.AnswerPort();  // which was still being asked for
  Settle();
  for (const Ending* ending : {&cancelled, &aborted, &late}) EXPECT_EQ(ending->ends, 1);
  EXPECT_EQ(on_.CountAsked(kReceive), 0u);
}

TEST_F(RendezvousTest, AnUnknownTaskOrDeviceEndsTheReceive) {
  on_.KnowPeer();
  Step step(&on_.task);
  auto key = [](const std::string& from, const std::string& to) {
    return tensorflow::Rendezvous::CreateKey(from, 7, to, "edge", tensorflow::FrameAndIter(0, 0));
  };
  Ending task, device;
  step.ReceiveKey(key("/job:ps/replica:0/task:9/device:CPU:0", absl::StrCat(kOwnTask, "/device:CPU:0")), &task);
  EXPECT_EQ(task.ends, 1);
  EXPECT_THAT(Message(task), HasSubstr("No worker known as /job:ps/replica:0/task:9"));
  step.ReceiveKey(key(absl::StrCat(kPeerTask, "/device:CPU:0"), absl::StrCat(kOwnTask, "/device:CPU:9")), &device);
  EXPECT_EQ(device.ends, 1);
  EXPECT_FALSE(device.status.ok());
  Settle();
  EXPECT_TRUE(on_.world.asked.empty());
}

TEST_F(RendezvousTest, AnAbortBeforeTheReceiveEndsItWithItsReason) {
  on_.KnowPeer();
  Step step(&on_.task);
  step->StartAbort(absl::FailedPreconditionError("the reason"));
  Ending ending;
  step.Receive("edge", &ending);
  ASSERT_TRUE(AwaitEnd(ending));
  Settle();
  EXPECT_EQ(ending.ends, 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(ending.status)) << ending.status;
  EXPECT_THAT(Message(ending), HasSubstr("the reason"));
  EXPECT_EQ(on_.CountAsked(kReceive), 0u);
}

TEST_F(RendezvousTest, AnAbortEndsAllThatIsUnderWayAndThePeerIsToldOnce) {
  on_.KnowPeer();
  Step step(&on_.task), other(&on_.task, kStep + 1);
  Ending endings[3], elsewhere;
  for (int i = 0; i < 3; ++i) {
    step.Receive(absl::StrCat("edge_", i), &endings[i]);
    ASSERT_TRUE(on_.world.AwaitAsked(static_cast<size_t>(i) + 1));
  }
  other.Receive("edge", &elsewhere);
  ASSERT_TRUE(on_.world.AwaitAsked(4));
  Reply(1, Answer().Value(0, Ramp(2, 7)));
  ASSERT_TRUE(AwaitEnd(endings[1]));
  step->StartAbort(absl::FailedPreconditionError("the reason"));
  step->StartAbort(absl::InternalError("another one"));
  ASSERT_TRUE(AwaitEnd(endings[0]));
  ASSERT_TRUE(AwaitEnd(endings[2]));
  ASSERT_TRUE(on_.world.AwaitAsked(5));
  VarReader reader{ConstBytes(on_.world.asked[4].head)};
  EXPECT_EQ(static_cast<int64_t>(reader.Fixed64()), kStep);
  // Its answer comes nevertheless, and is dropped.
  Reply(0, Answer().Value(0, Ramp(10'000, 1)));
  Reply(2, Answer().Error(0, absl::AbortedError("as it was told")));
  Settle();
  EXPECT_EQ(on_.CountAsked(kAbortStep), 1u);
  for (int i : {0, 2}) {
    EXPECT_EQ(endings[i].ends, 1);
    EXPECT_THAT(Message(endings[i]), HasSubstr("the reason"));
  }
  ExpectRamp(endings[1], 2, 7);  // it was there before
  EXPECT_EQ(elsewhere.ends, 0);
  Reply(3, Answer().Dead(0));
  ASSERT_TRUE(AwaitEnd(elsewhere));
  EXPECT_TRUE(elsewhere.is_dead);
}

TEST_F(RendezvousTest, ACancellationBeforeItBeginsIsHeard) {
  on_.KnowPeer();
  Step step(&on_.task);
  CancellationManager cancellation;
  cancellation.StartCancel();
  Ending ending;
  step.Receive("edge", &ending, &cancellation);
  ASSERT_TRUE(AwaitEnd(ending));
  Settle();
  EXPECT_EQ(ending.ends, 1);
  EXPECT_TRUE(absl::IsCancelled(ending.status)) << ending.status;
  EXPECT_EQ(on_.CountAsked(kReceive), 0u);
}

TEST_F(RendezvousTest, ACancellationEndsWhatIsUnderWayAndNothingThatHasEnded) {
  on_.KnowPeer();
  Step step(&on_.task);
  Ending first, second;
  {
    CancellationManager cancellation;
    step.Receive("first", &first, &cancellation);
    ASSERT_TRUE(on_.world.AwaitAsked(1));
    Reply(0, Answer().Value(0, Ramp(2, 1)));
    ASSERT_TRUE(AwaitEnd(first));
    step.Receive("second", &second, &cancellation);
    ASSERT_TRUE(on_.world.AwaitAsked(2));
    cancellation.StartCancel();
    ASSERT_TRUE(AwaitEnd(second));
  }
  EXPECT_TRUE(absl::IsCancelled(second.status)) << second.status;
  Reply(1, Answer().Value(0, Ramp(2, 1)));
  Settle();
  ExpectRamp(first, 2, 1);
  EXPECT_EQ(second.ends, 1);
}

TEST_F(RendezvousTest, APeerThatDiesEndsItsReceivesAndIsAskedForItsNewPort) {
  on_.KnowPeer();
  Step step(&on_.task);
  Ending ending, later;
  step.Receive("edge", &ending);
  ASSERT_TRUE(on_.world.AwaitAsked(1));
  on_.world.KillPeer();
  ASSERT_TRUE(AwaitEnd(ending));
  EXPECT_EQ(ending.ends, 1);
  EXPECT_TRUE(absl::IsUnavailable(ending.status)) << ending.status;
  EXPECT_THAT(Message(ending), HasSubstr(kPeerTask));
  EXPECT_TRUE(on_.task.peer->is_lost());
  on_.world.RestartPeer();
  Step next(&on_.task, kStep + 1);
  next.Receive("edge", &later);
  on_.AnswerPort();
  ASSERT_TRUE(on_.world.AwaitAsked(1));
  Reply(0, Answer().Value(0, Ramp(1, 3)));
  ASSERT_TRUE(AwaitEnd(later));
  ExpectRamp(later, 1, 3);
  EXPECT_EQ(ending.ends, 1);
}

TEST_F(RendezvousTest, APeerThatLiesEndsTheReceiveOnce) {
  on_.KnowPeer();
  Step step(&on_.task);
  std::vector<Answer> lies(4);
  lies[0].Dead(7);  // was not requested
  lies[1].Value(0, Ramp(3, 1)).Value(0, Ramp(3, 2));
  lies[2].Value(0, Ramp(3, 1)).head.pop_back();
  lies[3].head = "";  // and so does not answer
  for (Answer& lie : lies) {
    Ending ending;
    const size_t question = on_.world.asked.size();
    step.Receive("edge", &ending);
    if (!on_.grpc().asked.empty()) on_.AnswerPort();  // its channel has ended with the lie before
    ASSERT_TRUE(on_.world.AwaitAsked(question + 1));
    Reply(question, lie);
    ASSERT_TRUE(AwaitEnd(ending));
    Settle();
    EXPECT_EQ(ending.ends, 1);
    EXPECT_FALSE(ending.status.ok());
    EXPECT_EQ(ending.tensor.NumElements(), Tensor().NumElements());
  }
}

TEST(Rendezvous, WaitsForAnAbsentPeerUpToItsLimit) {
  StepWorld on(/*has_peer=*/false);
  on.KnowPeer();
  Step step(&on.task);
  Ending ending;
  step.Receive("edge", &ending);
  const int64_t begun_ns = on.world.world.clock()->NowNs();
  ASSERT_TRUE(on.world.RunUntil([&ending] { return ending.ends > 0; }));
  EXPECT_TRUE(absl::IsUnavailable(ending.status)) << ending.status;
  EXPECT_LT(on.world.world.clock()->NowNs() - begun_ns, 10 * kSecondNs);
}

// ---- receive lists ----

TEST_F(RendezvousTest, AStepRequestsAheadWhatTheFirstOneReceived) {
  on_.KnowPeer();
  RunStep({"a", "b"});
  const size_t question = on_.world.asked.size();
  Step step(&on_.task, ++last_step_, kGraph);
  ASSERT_TRUE(on_.world.AwaitAsked(question + 1));  // both, before anybody wants them
  Reply(question, Answer().Value(1, Ramp(2, 5)));
  Settle();
  Ending b;
  step.Receive("b", &b);
  ExpectRamp(b, 2, 5);  // at once
  EXPECT_EQ(on_.CountAsked(kReceive), question + 1);
  Ending a;  // which the peer left out
  step.Receive("a", &a);
  EXPECT_EQ(a.ends, 1);
  EXPECT_FALSE(a.status.ok());
}

TEST_F(RendezvousTest, AnEarlyRequestIsUsedLaterOrNever) {
  on_.KnowPeer();
  RunStep({"a", "b", "c"});
  const size_t question = on_.world.asked.size();
  Ending a, b;
  {
    Step step(&on_.task, ++last_step_, kGraph);
    ASSERT_TRUE(on_.world.AwaitAsked(question + 1));
    step.Receive("a", &a);
    step->StartAbort(absl::AbortedError("the reason"));
    step.Receive("b", &b);
    ASSERT_TRUE(AwaitEnd(a));
    ASSERT_TRUE(AwaitEnd(b));
  }
  Reply(question, Answer().Value(0, Ramp(10'000, 1)).Value(1, Ramp(2, 1)).Value(2, Ramp(10'000, 1)));
  Settle();
  for (const Ending* ending : {&a, &b}) {
    EXPECT_EQ(ending->ends, 1);
    EXPECT_THAT(Message(*ending), HasSubstr("the reason"));
  }
  on_.task.manager->Forget("session", kGraph);
  const size_t before = on_.CountAsked(kReceive);
  Step step(&on_.task, ++last_step_, kGraph);
  Settle();
  EXPECT_EQ(on_.CountAsked(kReceive), before);
}

// ---- what is left at other tasks ----

TEST_F(RendezvousTest, ValuesLeftAtAPeerAreDroppedUnlessTaken) {
  on_.KnowPeer();
  {
    Step step(&on_.task, 5);
    step->step().Leave({kPeerTask, "/job:nobody/replica:0/task:0"}, 2);
    step->step().Taken(2);
  }
  Settle();
  EXPECT_EQ(on_.CountAsked(kCleanupGraph), 0u);
  {
    Step step(&on_.task, 6);
    step->step().Leave({kPeerTask}, 2);
    step->step().Taken(1);
  }
  ASSERT_TRUE(on_.world.AwaitAsked(1));
  VarReader reader{ConstBytes(on_.world.asked[0].head)};
  EXPECT_EQ(reader.Varint(), 1u);
  EXPECT_EQ(reader.Fixed64(), 6u);
}

// ---- what others ask of our steps ----

TEST_F(RendezvousTest, ARequestForAStepThatHasNotBegunWaits) {
  auto key_of = [](const std::string& edge) {
    tensorflow::Rendezvous::ParsedKey key;
    const std::string from = absl::StrCat(kOwnTask, "/device:CPU:0"), to = absl::StrCat(kPeerTask, "/device:CPU:0");
    const std::string text = tensorflow::Rendezvous::CreateKey(from, 7, to, edge, tensorflow::FrameAndIter(0, 0));
    EXPECT_TRUE(tensorflow::Rendezvous::ParseKey(text, &key).ok());
    return key;
  };
  Ending sent, lost;
  on_.task.manager->RecvLocalAsync(4711, key_of("sent"), Step::EndOf(&sent));
  on_.task.manager->RecvLocalAsync(4711, key_of("lost"), Step::EndOf(&lost));
  on_.task.manager->Cleanup(4712);  // a step that does not exist
  EXPECT_EQ(sent.ends + lost.ends, 0);
  Step step(&on_.task, 4711);
  ASSERT_TRUE(step->Send(key_of("sent"), tensorflow::Rendezvous::Args(), Ramp(2, 6), false).ok());
  ExpectRamp(sent, 2, 6);
  on_.task.manager->Cleanup(4711);
  EXPECT_EQ(lost.ends, 1);
  EXPECT_TRUE(absl::IsAborted(lost.status)) << lost.status;
  on_.task.manager->CleanupAll();
  EXPECT_EQ(sent.ends + lost.ends, 2);
}

// ---- over gRPC ----

TEST_F(RendezvousTest, WithoutADataPortTheWayIsGrpc) {
  Step step(&on_.task);
  Ending ending;
  step.Receive("edge", &ending);
  on_.AnswerPort(0);
  ASSERT_EQ(on_.grpc().receiving.size(), 1u);
  EXPECT_EQ(on_.grpc().receiving[0].request->step_id(), kStep);
  EXPECT_EQ(on_.grpc().receiving[0].request->rendezvous_key(), KeyOf("edge"));
  on_.grpc().Bring(0, Ramp(5, 2));
  ExpectRamp(ending, 5, 2);
}

TEST_F(RendezvousTest, AnAbortCancelsTheCallAndItsReasonStands) {
  on_.KnowPeer(0);
  Step step(&on_.task);
  Ending before, ended, late;
  step.Receive("before", &before);
  step.Receive("ended", &ended);
  on_.grpc().Bring(1, Ramp(1, 1));
  step->StartAbort(absl::FailedPreconditionError("the reason"));
  EXPECT_TRUE(on_.grpc().receiving[0].is_cancelled);
  EXPECT_FALSE(on_.grpc().receiving[1].is_cancelled);
  EXPECT_EQ(before.ends, 0);  // the call still writes into its tensor
  on_.grpc().End(0, absl::CancelledError("as it was told"));
  EXPECT_EQ(before.ends, 1);
  EXPECT_THAT(Message(before), HasSubstr("the reason"));
  ExpectRamp(ended, 1, 1);
  step.Receive("late", &late);
  EXPECT_EQ(on_.grpc().receiving.size(), 2u);
  EXPECT_EQ(late.ends, 1);
  EXPECT_THAT(Message(late), HasSubstr("the reason"));
}

class FusedRendezvousTest : public RendezvousTest {
 protected:
  FusedRendezvousTest() { on_.KnowPeer(0); }

  // So many receives of a step in one call.
  void ReceiveTogether(Step* step, size_t count) {
    keys_ = ParsedKeys(count);
    endings_ = std::vector<Ending>(count);
    Rendezvous::Together together;
    together.keys = &keys_;
    together.args = std::vector<tensorflow::Rendezvous::Args>(count);
    for (size_t i = 0; i < count; ++i)
      ASSERT_TRUE(tensorflow::Rendezvous::ParseKey(KeyOf(absl::StrCat("edge_", i)), &keys_[i]).ok());
    together.done = [this](size_t i, const TfStatus& status, const Tensor& tensor, bool is_dead) {
      ++endings_[i].ends;
      endings_[i].status = status;
      endings_[i].tensor = tensor;
      endings_[i].is_dead = is_dead;
    };
    Rendezvous::RecvTogether(&**step, std::move(together));
  }

  ParsedKeys keys_;
  std::vector<Ending> endings_;
};

TEST_F(FusedRendezvousTest, SeveralTravelInOneCallAndWhatDidNotFitInAnother) {
  Step step(&on_.task);
  ReceiveTogether(&step, 3);
  ASSERT_EQ(on_.grpc().receiving.size(), 1u);
  std::vector<FusedItem> items(3);
  items[0].tensor = Ramp(1000, 1);
  items[1].kind = FusedKind::kDead;
  items[2].kind = FusedKind::kApart;
  Tensor answer;
  ASSERT_TRUE(EncodeFused(&items, kFusedBytesMax, &answer).ok());
  on_.grpc().Bring(0, answer);
  ExpectRamp(endings_[0], 1000, 1);
  EXPECT_TRUE(endings_[1].is_dead);
  EXPECT_EQ(endings_[2].ends, 0);
  ASSERT_EQ(on_.grpc().receiving.size(), 2u);
  on_.grpc().Bring(1, Ramp(2, 9));
  ExpectRamp(endings_[2], 2, 9);
}

TEST_F(FusedRendezvousTest, AnAnswerThatMakesNoSenseEndsEachOnce) {
  std::vector<FusedItem> items(3);
  for (FusedItem& item : items) item.tensor = Ramp(1000, 1);
  Tensor whole;
  ASSERT_TRUE(EncodeFused(&items, kFusedBytesMax, &whole).ok());
  for (int64_t bytes : {int64_t{16}, int64_t{20}, whole.NumElements() - 1}) {
    Step step(&on_.task);
    ReceiveTogether(&step, 3);
    on_.grpc().Bring(on_.grpc().receiving.size() - 1, whole.Slice(0, bytes));
    for (const Ending& ending : endings_) EXPECT_EQ(ending.ends, 1);
    EXPECT_FALSE(endings_[2].status.ok());
  }
}

TEST_F(FusedRendezvousTest, ATaskThatCannotFuseAnyMoreIsAskedOneByOne) {
  Step step(&on_.task);
  ReceiveTogether(&step, 2);
  on_.grpc().Bring(0, Ramp(2, 3));
  ExpectRamp(endings_[0], 2, 3);
  ASSERT_EQ(on_.grpc().receiving.size(), 2u);
  on_.grpc().Bring(1, Ramp(2, 4));
  ExpectRamp(endings_[1], 2, 4);
  ReceiveTogether(&step, 2);
  EXPECT_EQ(on_.grpc().receiving.size(), 4u);
  for (size_t call : {2, 3}) on_.grpc().End(call, absl::UnavailableError("gone"));
  for (const Ending& ending : endings_) EXPECT_EQ(ending.ends, 1);
}

TEST_F(FusedRendezvousTest, AnAbortOfTheStepEndsAllOfACall) {
  Step step(&on_.task);
  ReceiveTogether(&step, 2);
  step->StartAbort(absl::AbortedError("the reason"));
  EXPECT_TRUE(on_.grpc().receiving[0].is_cancelled);
  on_.grpc().End(0, TfStatus());  // an answer that was faster
  for (const Ending& ending : endings_) {
    EXPECT_EQ(ending.ends, 1);
    EXPECT_THAT(Message(ending), HasSubstr("the reason"));
  }
}

// ---- receive lists ----

ReceiveList::Receive ReceiveOf(const std::string& key) {
  ReceiveList::Receive receive;
  receive.key = key;
  receive.task = "/job:ps/replica:0/task:0";
  return receive;
}

TEST(ReceiveLists, AGraphIsUnknownUntilAStepHasRun) {
  ReceiveBook book;
  EXPECT_EQ(book.Find("a 1"), nullptr);
  book.Learn("a 1", {ReceiveOf("x"), ReceiveOf("y")});
  ReceiveListPtr list = book.Find("a 1");
  ASSERT_NE(list, nullptr);
  EXPECT_EQ(list->Find("x"), 0);
  EXPECT_EQ(list->Find("y"), 1);
  EXPECT_EQ(list->Find("z"), -1);
  EXPECT_EQ(book.Find("a 2"), nullptr);
}

TEST(ReceiveLists, AReceiveOfSeveralStepsIsListedOnce) {
  ReceiveBook book;
  book.Learn("a 1", {ReceiveOf("x"), ReceiveOf("y")});
  ReceiveListPtr early = book.Find("a 1");
  book.Learn("a 1", {ReceiveOf("y"), ReceiveOf("z")});
  ReceiveListPtr late = book.Find("a 1");
  ASSERT_EQ(late->receives().size(), 3U);
  EXPECT_EQ(late->Find("z"), 2);
  // A step that runs keeps what it began with.
  EXPECT_EQ(early->receives().size(), 2U);
}

TEST(ReceiveLists, AGraphThatIsGoneIsForgotten) {
  ReceiveBook book;
  book.Learn(ReceiveBook::NameOf("session", "1"), {ReceiveOf("x")});
  book.Forget(ReceiveBook::NameOf("session", "2"));
  EXPECT_NE(book.Find(ReceiveBook::NameOf("session", "1")), nullptr);
  book.Forget(ReceiveBook::NameOf("session", "1"));
  EXPECT_EQ(book.Find(ReceiveBook::NameOf("session", "1")), nullptr);
}

TEST(ReceiveLists, ABookHasAnEnd) {
  ReceiveBook book;
  for (int graph = 0; graph < 20000; ++graph) book.Learn(std::to_string(graph), {ReceiveOf("x")});
  EXPECT_NE(book.Find("0"), nullptr);
  EXPECT_EQ(book.Find("19999"), nullptr);
}

}  // namespace
}  // namespace fusewire::tf
