// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The operation of star/call/run_op.cc beside a parameter server that the test plays.
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/tf/bridge/status.h"
#include "fusewire/tf/heads/calls.h"
#include "fusewire/tf/heads/varint.h"
#include "fusewire/tf/peer/recorded_test.h"
#include "fusewire/tf/receive/step_test.h"
#include "fusewire/tf/star/call/recording.h"
#include "fusewire/tf/star/call/run_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tensorflow/core/framework/cancellation.h>
#include <tensorflow/core/framework/op_kernel.h>

namespace fusewire::tf {
namespace {

using tensorflow::CancellationManager;
using tensorflow::Tensor;
using testing::HasSubstr;
using testing::Not;

TEST_F(RunOpTest, PlacesItsPartOnceAndRunsItInEachStep) {
  on_.KnowPeer();
  auto running = Start();
  DataWorld::Asked* place = Next(kPlacePart);
  VarReader named{ConstBytes(place->head)};
  EXPECT_EQ(View(named.Text()), "session");
  EXPECT_EQ(View(named.Text()), "its fingerprint");
  EXPECT_TRUE(place->body.empty());
  SayPlaced(place, 0);  // it does not know the part: here it is
  DataWorld::Asked* again = Next(kPlacePart);
  ASSERT_EQ(again->body.size(), 1u);
  EXPECT_EQ(View(again->body[0].bytes()), "the piece");
  SayPlaced(again, kPart);
  DataWorld::Asked* run = Next(kRunPart);
  VarReader said{ConstBytes(run->head)};
  EXPECT_EQ(said.Fixed64(), kPart);
  EXPECT_EQ(static_cast<int64_t>(said.Fixed64()), last_step_);
  EXPECT_EQ(said.Byte(), 0);
  EXPECT_EQ(running->ends.count(), 0);
  SayResult(run, Ramp(10'000, 5));
  ASSERT_TRUE(AwaitEnd(*running));
  ASSERT_TRUE(running->status().ok()) << running->status();
  ASSERT_EQ(running->output().NumElements(), 10'000);
  EXPECT_EQ(running->output().flat<float>()(9'999), 10'004);
  auto next = Start();
  SayResult(Next(kRunPart), Ramp(2, 7));
  ASSERT_TRUE(AwaitEnd(*next));
  EXPECT_EQ(next->output().flat<float>()(1), 8);
  EXPECT_EQ(running->ends.count(), 1);
}

TEST_F(RunOpTest, ARunIsRecordedUntilItsAnswer) {
  Recorded recorded;
  on_.KnowPeer();
  auto running = Start();
  SayPlaced(Next(kPlacePart), kPart);
  DataWorld::Asked* run = Next(kRunPart);
  std::vector<Recorded::One> all = recorded.Read();
  ASSERT_GE(all.size(), 1u);
  EXPECT_EQ(all.back().words.substr(0, 22), "run_out worker:0 ps:0 ");
  EXPECT_TRUE(all.back().seen.is_open);
  EXPECT_EQ(all.back().seen.step, last_step_);
  SayResult(run, Ramp(10'000, 5));
  ASSERT_TRUE(AwaitEnd(*running));
  EXPECT_EQ(recorded.open(), 0u);
  EXPECT_EQ(recorded.Read().back().seen.bytes, 40'000u);
}

TEST_F(RunOpTest, APartThatTheServerForgotIsPlacedAgain) {
  on_.KnowPeer();
  PlaceIt();
  auto running = Start();
  Next(kRunPart)->reply.Send(Status::Application(kUnknownPart, "not here"));
  SayPlaced(Next(kPlacePart), kPart + 1);
  DataWorld::Asked* run = Next(kRunPart);
  VarReader said{ConstBytes(run->head)};
  EXPECT_EQ(said.Fixed64(), kPart + 1);
  SayResult(run, Ramp(1, 2));
  ASSERT_TRUE(AwaitEnd(*running));
  EXPECT_TRUE(running->status().ok()) << running->status();
}

TEST_F(RunOpTest, AServerThatForgetsAgainAndAgainIsGivenUp) {
  on_.KnowPeer();
  auto running = Start();
  for (int turn = 0; turn < 3; ++turn) {
    SayPlaced(Next(kPlacePart), kPart);
    EXPECT_EQ(running->ends.count(), 0);
    Next(kRunPart)->reply.Send(Status::Application(kUnknownPart, "not here"));
  }
  ASSERT_TRUE(AwaitEnd(*running));
  EXPECT_TRUE(absl::IsAborted(running->status())) << running->status();
  Settle();
  EXPECT_EQ(on_.world.asked.size(), questions_);
}

TEST_F(RunOpTest, WhyAPartCannotBePlacedIsTheStepsError) {
  on_.KnowPeer();
  auto refused = Start();
  AnswerWith(Next(kPlacePart), absl::InvalidArgumentError("an operation that is not known here"));
  ASSERT_TRUE(AwaitEnd(*refused));
  EXPECT_TRUE(absl::IsInvalidArgument(refused->status())) << refused->status();
  EXPECT_THAT(refused->message(), HasSubstr("an operation that is not known here"));
  auto not_taken = Start();
  for (int turn = 0; turn < 2; ++turn) SayPlaced(Next(kPlacePart), 0);
  ASSERT_TRUE(AwaitEnd(*not_taken));
  EXPECT_FALSE(not_taken->status().ok());
  auto nonsense = Start();
  Next(kPlacePart)->reply.Send(Status::Ok(), ConstBytes("\xff", 1));
  ASSERT_TRUE(AwaitEnd(*nonsense));
  EXPECT_FALSE(nonsense->status().ok());
  Settle();
  EXPECT_EQ(on_.world.asked.size(), questions_);
}

TEST_F(RunOpTest, AnErrorOfTheRunSaysWhereItWas) {
  on_.KnowPeer();
  PlaceIt();
  auto running = Start();
  AnswerWith(Next(kRunPart), absl::OutOfRangeError("the queue is closed"));
  ASSERT_TRUE(AwaitEnd(*running));
  EXPECT_TRUE(absl::IsOutOfRange(running->status())) << running->status();
  EXPECT_THAT(running->message(), HasSubstr(std::string("From ") + kPeerTask));
  EXPECT_THAT(running->message(), HasSubstr("the queue is closed"));
}

TEST_F(RunOpTest, AServerThatLiesEndsTheStepOnce) {
  std::string value;
  Buffers none;
  ASSERT_TRUE(AppendTensor(Ramp(3, 1), &value, &none).ok());
  std::string integer;
  ASSERT_TRUE(AppendTensor(Tensor(int64_t{3}), &integer, &none).ok());
  const std::vector<std::string> lies = {"", value.substr(0, value.size() - 1), integer, "\xff\xff\xff"};
  on_.KnowPeer();
  for (const std::string& lie : lies) {
    SCOPED_TRACE(lie.size());
    auto running = Start();
    if (on_.task.peer->channel() == nullptr) on_.AnswerPort();
    while (on_.world.AwaitAsked(questions_ + 1) && on_.world.asked.back().method == kPlacePart)
      SayPlaced(Next(kPlacePart), kPart);
    AnswerWith(Next(kRunPart), TfStatus(), lie);
    ASSERT_TRUE(AwaitEnd(*running));
    Settle();
    EXPECT_EQ(running->ends.count(), 1);
    EXPECT_FALSE(running->status().ok());
  }
  auto running = Start();
  if (on_.task.peer->channel() == nullptr) on_.AnswerPort();
  while (on_.world.AwaitAsked(questions_ + 1) && on_.world.asked.back().method == kPlacePart)
    SayPlaced(Next(kPlacePart), kPart);
  Buffers surplus;
  surplus.push_back(Buffer::CopyOf(ConstBytes("surplus", 7)));
  AnswerWith(Next(kRunPart), TfStatus(), value, std::move(surplus));
  ASSERT_TRUE(AwaitEnd(*running));
  EXPECT_FALSE(running->status().ok());
}

TEST_F(RunOpTest, AServerThatDiesEndsTheStepAndTheNextOnePlacesThePartAgain) {
  on_.KnowPeer();
  PlaceIt();
  auto running = Start();
  Next(kRunPart);
  on_.world.KillPeer();
  ASSERT_TRUE(AwaitEnd(*running));
  EXPECT_TRUE(absl::IsUnavailable(running->status())) << running->status();
  EXPECT_THAT(running->message(), HasSubstr(kPeerTask));
  on_.world.RestartPeer();
  questions_ = 0;
  auto next = Start();
  on_.AnswerPort();
  SayPlaced(Next(kPlacePart), kPart);
  SayResult(Next(kRunPart), Ramp(1, 2));
  ASSERT_TRUE(AwaitEnd(*next));
  EXPECT_TRUE(next->status().ok()) << next->status();
}

// ---- a connection that is lost ----

class LostRunTest : public RunOpTest {
 protected:
  LostRunTest() : RunOpTest(0, 20 * kSecondNs) { on_.KnowPeer(); }
  void Cut() { on_.world.world.Cut("worker", "ps"); }
  // From now on nothing arrives.
  void Part() {
    transport::LoopbackFaults parted;
    parted.lost = true;
    on_.world.world.SetFaults(parted);
  }
  // Behind part, step and flags.
  static Ticket TicketOf(const DataWorld::Asked& run) {
    const RunHead head = HeadOf(run);
    EXPECT_EQ(head.part, kPart);
    return head.ticket;
  }
  // Its first run is lost, and comes again.
  DataWorld::Asked* Lose(DataWorld::Asked* first) {
    const std::string head = first->head;
    const uint64_t repeated = GlobalCounters().calls_repeated.load();
    Cut();
    DataWorld::Asked* again = Next(kRunPart);
    EXPECT_EQ(again->head, head);
    EXPECT_EQ(GlobalCounters().calls_repeated.load(), repeated + 1);
    return again;
  }
};

TEST_F(LostRunTest, IsMadeAgainWithItsTicket) {
  PlaceIt(Again::kTicket);
  auto running = Start();
  DataWorld::Asked* first = Next(kRunPart);
  const Ticket ticket = TicketOf(*first);
  EXPECT_EQ(ticket.number, 2u);
  EXPECT_EQ(ticket.open, 2u);
  auto other = Start();
  const Ticket second = TicketOf(*Next(kRunPart));
  EXPECT_EQ(second.client, ticket.client);
  EXPECT_EQ(second.number, 3u);
  EXPECT_EQ(second.open, 2u);
  Cut();
  DataWorld::Asked* one = Next(kRunPart);
  DataWorld::Asked* two = Next(kRunPart);
  EXPECT_EQ(TicketOf(*one).number + TicketOf(*two).number, 5u);
  SayResult(one, Ramp(10'000, 5));
  SayResult(two, Ramp(10'000, 5));
  ASSERT_TRUE(AwaitEnd(*running));
  ASSERT_TRUE(AwaitEnd(*other));
  EXPECT_TRUE(running->status().ok()) << running->status();
  EXPECT_EQ(running->output().flat<float>()(9'999), 10'004);
  EXPECT_TRUE(other->status().ok()) << other->status();
  // Both have their answers: nothing before the next one is open.
  auto next = Start();
  const Ticket last = TicketOf(*Next(kRunPart));
  EXPECT_EQ(last.number, 4u);
  EXPECT_EQ(last.open, 4u);
  SayResult(&on_.world.asked.back(), Ramp(1, 1));
  ASSERT_TRUE(AwaitEnd(*next));
}

TEST_F(LostRunTest, OfAPartThatOnlyReadsNeedsNoTicket) {
  PlaceIt(Again::kFreely);
  auto running = Start();
  DataWorld::Asked* run = Next(kRunPart);
  EXPECT_EQ(TicketOf(*run).number, 0u);
  for (int turn = 0; turn < 5; ++turn) run = Lose(run);
  SayResult(run, Ramp(2, 7));
  ASSERT_TRUE(AwaitEnd(*running));
  EXPECT_TRUE(running->status().ok()) << running->status();
}

TEST_F(LostRunTest, InTheMiddleOfItsAnswerIsMadeAgain) {
  PlaceIt(Again::kFreely);
  transport::LoopbackFaults slow;
  slow.bytes_per_second = 1000 * 1000;
  on_.world.world.SetFaults(slow);
  auto running = Start();
  DataWorld::Asked* run = Next(kRunPart);
  SayResult(run, Ramp(1'000'000, 1));
  on_.world.world.RunFor(300 * kMillisecondNs);
  EXPECT_EQ(running->ends.count(), 0);
  Cut();
  SayResult(Next(kRunPart), Ramp(20'000, 3));
  ASSERT_TRUE(AwaitEnd(*running));
  ASSERT_TRUE(running->status().ok()) << running->status();
  ASSERT_EQ(running->output().NumElements(), 20'000);
  EXPECT_EQ(running->output().flat<float>()(19'999), 20'002);
}

TEST_F(LostRunTest, WhileItsPartIsPlacedIsMadeAgain) {
  auto running = Start();
  Next(kPlacePart);
  Cut();
  SayPlaced(Next(kPlacePart), 0);  // it does not know the part
  DataWorld::Asked* place = Next(kPlacePart);
  EXPECT_EQ(place->body.size(), 1u);
  Cut();
  place = Next(kPlacePart);
  ASSERT_EQ(place->body.size(), 1u);
  EXPECT_EQ(View(place->body[0].bytes()), "the piece");
  SayPlaced(place, kPart);
  SayResult(Next(kRunPart), Ramp(1, 2));
  ASSERT_TRUE(AwaitEnd(*running));
  EXPECT_TRUE(running->status().ok()) << running->status();
}

TEST_F(LostRunTest, OfAPartThatMayWaitEndsTheStep) {
  PlaceIt(Again::kNever);
  auto running = Start();
  Next(kRunPart);
  Cut();
  ASSERT_TRUE(AwaitEnd(*running));
  EXPECT_TRUE(absl::IsUnavailable(running->status())) << running->status();
  EXPECT_EQ(on_.world.asked.size(), questions_);
}

// Its connection stands: the same answer would come for as long as it is asked for.
TEST_F(LostRunTest, WhoseAnswerMakesNoSenseEndsTheStep) {
  PlaceIt(Again::kTicket);
  auto running = Start();
  AnswerWith(Lose(Next(kRunPart)), TfStatus(), "\xff\xff\xff");
  ASSERT_TRUE(AwaitEnd(*running));
  EXPECT_FALSE(running->status().ok());
  Settle();
  EXPECT_EQ(on_.world.asked.size(), questions_);
}

TEST_F(LostRunTest, WhoseAnswerIsGoneEndsTheStep) {
  PlaceIt(Again::kTicket);
  auto running = Start();
  Lose(Next(kRunPart))->reply.Send(Status::Application(kAnswerGone, "it was large"));
  ASSERT_TRUE(AwaitEnd(*running));
  EXPECT_TRUE(absl::IsAborted(running->status())) << running->status();
  EXPECT_THAT(running->message(), HasSubstr("its answer was lost with the connection"));
}

TEST_F(LostRunTest, AtAServerThatHasDiedEndsAtOnce) {
  PlaceIt(Again::kTicket);
  auto running = Start();
  Next(kRunPart);
  const int64_t begun_ns = on_.world.worker_home->clock()->NowNs();
  on_.world.KillPeer();
  ASSERT_TRUE(AwaitEnd(*running));
  EXPECT_TRUE(absl::IsUnavailable(running->status())) << running->status();
  EXPECT_THAT(running->message(), Not(HasSubstr("refused")));  // the first error is the cause
  EXPECT_LT(on_.world.worker_home->clock()->NowNs() - begun_ns, kSecondNs);
}

TEST_F(LostRunTest, AtAServerThatHasRestartedEndsAtOnce) {
  PlaceIt(Again::kTicket);
  auto running = Start();
  Next(kRunPart);
  on_.world.KillPeer();
  on_.world.RestartPeer();
  ASSERT_TRUE(AwaitEnd(*running));
  EXPECT_TRUE(absl::IsUnavailable(running->status())) << running->status();
  EXPECT_EQ(on_.CountAsked(kRunPart), 0u);  // another process: it may know nothing of us
}

TEST_F(LostRunTest, IsMadeAgainForAsLongAsTheSettingSays) {
  PlaceIt(Again::kTicket);
  auto running = Start();
  Next(kRunPart);
  const int64_t begun_ns = on_.world.worker_home->clock()->NowNs();
  Cut();
  Part();
  ASSERT_TRUE(AwaitEnd(*running));
  EXPECT_TRUE(absl::IsUnavailable(running->status())) << running->status();
  const int64_t waited_ns = on_.world.worker_home->clock()->NowNs() - begun_ns;
  EXPECT_GE(waited_ns, 20 * kSecondNs);
  EXPECT_LT(waited_ns, 28 * kSecondNs);
}

TEST_F(LostRunTest, ToASilentServerIsNotMadeAgain) {
  PlaceIt(Again::kTicket);
  auto running = Start();
  Next(kRunPart);
  const int64_t begun_ns = on_.world.worker_home->clock()->NowNs();
  Part();
  ASSERT_TRUE(AwaitEnd(*running));  // the silence has used up the time
  EXPECT_TRUE(absl::IsUnavailable(running->status())) << running->status();
  EXPECT_LT(on_.world.worker_home->clock()->NowNs() - begun_ns, 27 * kSecondNs);
}

TEST_F(LostRunTest, EndsWithItsStep) {
  PlaceIt(Again::kTicket);
  CancellationManager cancellation;
  auto running = Start(&cancellation);
  Next(kRunPart);
  Cut();
  Part();
  on_.world.world.RunFor(3 * kSecondNs);
  EXPECT_EQ(running->ends.count(), 0);
  cancellation.StartCancel();
  ExpectCancelled(running.get());
}

TEST_F(RunOpTest, AServerWithoutADataPortSaysSo) {
  auto unreachable = Start();
  on_.grpc().Answer(TfStatus(absl::UnavailableError("connection refused")));
  EXPECT_EQ(unreachable->ends.count(), 1);
  EXPECT_THAT(unreachable->message(), HasSubstr("connection refused"));
  auto without = Start();
  on_.AnswerPort(0);
  EXPECT_EQ(without->ends.count(), 1);
  EXPECT_TRUE(absl::IsUnavailable(without->status())) << without->status();
  EXPECT_THAT(without->message(), HasSubstr("has no data port"));
}

// ---- a recording ----

// Each record of the file in words.
std::vector<std::string> RecordsOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  VarReader reader(ConstBytes(content).From(8));
  std::vector<std::string> records;
  while (!reader.done() && reader.ok()) {
    const uint8_t kind = reader.Byte();
    const std::string address = reader.Text().ToString();
    const uint64_t part = reader.Fixed64();
    if (kind == kPlacePart) {
      const std::string session = reader.Text().ToString();
      records.push_back(absl::StrCat("placed ", part, " at ", address, ": ", session, ", ", reader.Text().ToString()));
      continue;
    }
    records.push_back(absl::StrCat("run ", part));
    const std::string head = reader.Text().ToString();
    VarReader run{ConstBytes(head)};
    EXPECT_EQ(run.Fixed64(), part);
    EXPECT_EQ(reader.Varint(), 0u);  // a small input is in the head
  }
  EXPECT_TRUE(reader.ok());
  return records;
}

TEST_F(RunOpTest, ARecordingHasEachCallWithTheNumberOfItsPart) {
  static int files = 0;
  const std::string path = absl::StrCat(testing::TempDir(), "/run_op_recording_", ++files);
  RecordTo(path);
  on_.KnowPeer();
  PlaceIt();
  auto running = Start();
  SayResult(Next(kRunPart), Ramp(1, 1));
  ASSERT_TRUE(AwaitEnd(*running));
  records_calls.store(false);
  EXPECT_THAT(RecordsOf(path), testing::ElementsAre(HasSubstr(": session, its fingerprint"), "run 17", "run 17"));
}

// ---- cancellation ----

TEST_F(RunOpTest, CancelledBeforeItBeginsItSendsNothing) {
  on_.KnowPeer();
  CancellationManager cancellation;
  cancellation.StartCancel();
  auto running = Start(&cancellation);
  EXPECT_EQ(running->ends.count(), 1);
  ExpectCancelled(running.get());
  EXPECT_TRUE(on_.world.asked.empty());
}

TEST_F(RunOpTest, ACancellationEndsTheSearchForTheWay) {
  CancellationManager cancellation;
  auto running = Start(&cancellation);
  ASSERT_EQ(on_.grpc().asked.size(), 1u);
  cancellation.StartCancel();
  ExpectCancelled(running.get());
  on_.AnswerPort();  // which was still being asked for
  Settle();
  EXPECT_EQ(running->ends.count(), 1);
  EXPECT_TRUE(on_.world.asked.empty());
}

TEST_F(RunOpTest, ACancellationEndsThePlacing) {
  on_.KnowPeer();
  CancellationManager cancellation;
  auto running = Start(&cancellation);
  DataWorld::Asked* place = Next(kPlacePart);
  cancellation.StartCancel();
  ExpectCancelled(running.get());
  EXPECT_TRUE(place->unwanted);
  SayPlaced(place, kPart);
  Settle();
  EXPECT_EQ(running->ends.count(), 1);
  PlaceIt();  // the next step asks anew
}

TEST_F(RunOpTest, ACancellationEndsTheRunAndTheServerHearsOfIt) {
  on_.KnowPeer();
  PlaceIt();
  CancellationManager cancellation;
  auto running = Start(&cancellation);
  DataWorld::Asked* run = Next(kRunPart);
  cancellation.StartCancel();
  ExpectCancelled(running.get());
  EXPECT_TRUE(run->unwanted);
  SayResult(run, Ramp(10'000, 1));
  Settle();
  EXPECT_EQ(running->ends.count(), 1);
}

TEST_F(RunOpTest, ACancellationAfterTheEndHasNoEffect) {
  on_.KnowPeer();
  PlaceIt();
  CancellationManager cancellation;
  auto running = Start(&cancellation);
  SayResult(Next(kRunPart), Ramp(2, 1));
  ASSERT_TRUE(AwaitEnd(*running));
  cancellation.StartCancel();
  Settle();
  EXPECT_EQ(running->ends.count(), 1);
  EXPECT_TRUE(running->status().ok()) << running->status();
}

}  // namespace
}  // namespace fusewire::tf
