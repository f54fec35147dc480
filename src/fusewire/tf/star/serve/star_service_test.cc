// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/serve/star_service.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/clock.h"
#include "fusewire/tf/bridge/status.h"
#include "fusewire/tf/heads/calls.h"
#include "fusewire/tf/peer/recorded_test.h"
#include "fusewire/tf/peer/world_test.h"
#include "fusewire/tf/snapshot/folder_test.h"
#include "fusewire/tf/snapshot/snapshots.h"
#include "fusewire/tf/star/serve/task_test.h"

#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

using tensorflow::Tensor;

constexpr const char* kSession = "session";

class Asking final : public rpc::Call {
 public:
  explicit Asking(uint16_t number) : Call(number) {}
  std::string text;
  bool has_ended = false;
  Status status;

 private:
  void OnDone(Status done) override {
    status = std::move(done);
    has_ended = true;
  }
};

// The answer of a run.
struct Outcome {
  Status wire;
  TfStatus status;
  std::vector<Tensor> results;
  std::string left;  // behind them
};

class StarServiceTest : public testing::Test {
 protected:
  explicit StarServiceTest(Snapshots* snapshots = nullptr)
      : service_(std::make_unique<StarService>(&task_.env, snapshots)) {
    task_.Begin(kSession);
  }
  ~StarServiceTest() override {
    channel_.reset();
    world_.ClosePeer();
    service_.reset();  // its homes are the world's
  }

  void Ask(Asking* asking) {
    asking->head = asking->text;
    channel_->client().Start(asking);
    ASSERT_TRUE(world_.RunUntilWithThreads([this, asking] {
      task_.RunHere();
      return asking->has_ended;
    }));
  }
  // The part's number; 0 if it is not known there. `error` is the service's own.
  uint64_t Place(const std::string& fingerprint, const std::string& piece = "", TfStatus* error = nullptr,
                 const std::string& session = kSession) {
    Asking question(kPlacePart);
    AppendText(&question.text, session);
    AppendText(&question.text, fingerprint);
    if (!piece.empty()) question.body.push_back(Buffer::CopyOf(ConstBytes(piece.data(), piece.size())));
    Ask(&question);
    EXPECT_TRUE(question.status.ok()) << question.status.ToString();
    VarReader reader{ConstBytes(question.reply_head)};
    TfStatus status;
    EXPECT_TRUE(ReadTfStatus(&reader, &status).ok());
    if (error != nullptr) *error = status;
    EXPECT_TRUE(status.ok() || error != nullptr) << status;
    return status.ok() ? reader.Fixed64() : 0;
  }
  Again PlaceAgain(const std::string& fingerprint, const Piece& piece) {
    Asking question(kPlacePart);
    const std::string text = TextOf(piece);
    AppendText(&question.text, kSession);
    AppendText(&question.text, fingerprint);
    question.body.push_back(Buffer::CopyOf(ConstBytes(text.data(), text.size())));
    Ask(&question);
    VarReader reader{ConstBytes(question.reply_head)};
    TfStatus status;
    uint64_t part = 0;
    Again again = Again::kNever;
    EXPECT_TRUE(ReadTfStatus(&reader, &status).ok() && status.ok()) << status;
    EXPECT_TRUE(DecodePlaced(&reader, &part, &again).ok());
    EXPECT_NE(part, 0u);
    return again;
  }
  static std::string RunHead(uint64_t part, uint8_t flags = 0, const Ticket& ticket = Ticket()) {
    std::string head;
    AppendFixed64(&head, part);
    AppendFixed64(&head, static_cast<uint64_t>(kStep));
    head.push_back(static_cast<char>(flags));
    if ((flags & kWithTicket) != 0) AppendTicket(ticket, &head);
    return head;
  }
  Outcome Run(uint64_t part, const std::vector<Tensor>& args, uint8_t flags = 0, const Ticket& ticket = Ticket()) {
    Asking question(kRunPart);
    if (ticket.number != 0) flags |= kWithTicket;
    question.text = RunHead(part, flags, ticket);
    for (const Tensor& arg : args) EXPECT_TRUE(AppendTensor(arg, &question.text, &question.body).ok());
    Ask(&question);
    Outcome outcome;
    outcome.wire = question.status;
    if (!question.status.ok()) return outcome;
    VarReader reader{ConstBytes(question.reply_head)};
    EXPECT_TRUE(ReadTfStatus(&reader, &outcome.status).ok());
    TensorPlace place;
    place.device = WorkersCpu();
    size_t segment = 0;
    while (outcome.status.ok() && !reader.done() && (flags & kTraced) == 0) {
      TensorLanding landing;
      TfStatus begun =
          landing.Begin(&reader, place, [&question, segment] { return question.reply_body[segment].size(); });
      EXPECT_TRUE(begun.ok()) << begun;
      if (landing.has_segment()) CopyBytes(landing.place(), question.reply_body[segment++].bytes());
      landing.Finish(place, [&outcome](const TfStatus& landed, const Tensor& tensor) {
        EXPECT_TRUE(landed.ok()) << landed;
        outcome.results.push_back(tensor);
      });
    }
    outcome.left = std::string(View(reader.left()));
    return outcome;
  }
  Status Keep(uint32_t number, uint32_t takers, const Tensor& tensor, const std::string& session = kSession) {
    Asking question(kKeepValues);
    AppendText(&question.text, session);
    AppendFixed64(&question.text, static_cast<uint64_t>(kStep));
    AppendVarint(&question.text, number);
    AppendVarint(&question.text, takers);
    EXPECT_TRUE(AppendTensor(tensor, &question.text, &question.body).ok());
    Ask(&question);
    return question.status;
  }
  static std::string TextOf(const Piece& piece) { return piece.request.SerializeAsString(); }

  Task task_{/*threads=*/0};
  std::unique_ptr<StarService> service_;
  DataWorld world_{true, [this](reactor::Pool& homes) { return service_->Methods(homes); }};
  ChannelPtr channel_ = world_.MakeChannel();
};

TEST_F(StarServiceTest, PlacesAPartOnceAndRunsIt) {
  EXPECT_EQ(Place("neg"), 0u);
  const uint64_t part = Place("neg", TextOf(Piece("Neg", 1)));
  ASSERT_NE(part, 0u);
  EXPECT_EQ(Place("neg"), part);
  for (int64_t count : {1, 100'000}) {
    for (int turn = 0; turn < 3; ++turn) {  // on TensorFlow's pool first, then, known to be quick, at home
      Outcome outcome = Run(part, {Ramp(count, 4)});
      ASSERT_TRUE(outcome.wire.ok()) << outcome.wire.ToString();
      ASSERT_TRUE(outcome.status.ok()) << outcome.status;
      ASSERT_EQ(outcome.results.size(), 1u);
      ASSERT_EQ(outcome.results[0].NumElements(), count);
      for (int64_t i = 0; i < count; ++i) ASSERT_EQ(outcome.results[0].flat<float>()(i), -(4 + static_cast<float>(i)));
    }
  }
}

TEST_F(StarServiceTest, ARunIsRecordedWithItsTaskAndItsEnd) {
  Recorded recorded;
  const uint64_t part = Place("neg", TextOf(Piece("Neg", 1)));
  EXPECT_TRUE(Run(part, {Ramp(1000, 4)}).status.ok());
  EXPECT_FALSE(Run(part, {Tensor(int64_t{3})}).status.ok());
  const std::vector<Recorded::One> all = recorded.Read();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(recorded.open(), 0u);
  EXPECT_EQ(all[0].words, "run_in ps:0 worker result");
  EXPECT_EQ(all[0].seen.step, kStep);
  EXPECT_EQ(all[0].seen.bytes, 4000u + 4000u);  // given and returned
  EXPECT_EQ(all[0].seen.end, observe::End::kOk);
  EXPECT_EQ(all[1].seen.end, observe::End::kFailed);
}

TEST_F(StarServiceTest, AnUnknownPartIsRequested) {
  Outcome outcome = Run(12345, {});
  EXPECT_EQ(outcome.wire.code(), Code::kApplication);
  EXPECT_EQ(outcome.wire.app_code(), kUnknownPart);
}

TEST_F(StarServiceTest, AFailedPlacementSaysWhy) {
  TfStatus error;
  EXPECT_EQ(Place("garbage", "no graph", &error), 0u);
  EXPECT_TRUE(absl::IsInvalidArgument(error)) << error;
  EXPECT_EQ(Place("neg", TextOf(Piece("Neg", 1)), &error, "nobody"), 0u);
  EXPECT_FALSE(error.ok());
  Asking nameless(kPlacePart);
  nameless.text = "\x7f";
  Ask(&nameless);
  EXPECT_EQ(nameless.status.code(), Code::kInvalid);
}

TEST_F(StarServiceTest, RequestsThatMakeNoSenseAreRefused) {
  const uint64_t part = Place("neg", TextOf(Piece("Neg", 1)));
  std::string value;
  Buffers none;
  ASSERT_TRUE(AppendTensor(Ramp(2, 1), &value, &none).ok());
  const std::string good = RunHead(part) + value;
  for (const std::string& head : {good.substr(0, 10), good.substr(0, good.size() - 1), RunHead(part, 0x80) + value,
                                  good + "surplus", RunHead(part)}) {
    Asking question(kRunPart);
    question.text = head;
    Ask(&question);
    EXPECT_FALSE(question.status.ok()) << "a head of " << head.size() << " bytes";
  }
  Outcome outcome = Run(part, {Ramp(2, 1)});  // and the server is as before
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
}

TEST_F(StarServiceTest, AnUnknownHandleIsRefused) {
  const uint64_t part = Place("neg", TextOf(Piece("Neg", 1)));
  for (const uint64_t guessed : {uint64_t{0}, part + 1, UINT64_MAX}) {
    Outcome outcome = Run(guessed, {Ramp(2, 1)});
    EXPECT_EQ(outcome.wire.app_code(), kUnknownPart) << guessed;
  }
  // One that is over stays so, though the same part is placed again.
  service_->Release(kSession);
  const uint64_t again = Place("neg", TextOf(Piece("Neg", 1)));
  EXPECT_NE(again, part);
  EXPECT_EQ(Run(part, {Ramp(2, 1)}).wire.app_code(), kUnknownPart);
  EXPECT_TRUE(Run(again, {Ramp(2, 1)}).status.ok());
}

TEST_F(StarServiceTest, FeedsAreAsManyAsThePartTakes) {
  const uint64_t part = Place("add", TextOf(Piece("AddV2", 2)));
  for (size_t count : {0, 1, 3, 40}) {
    for (int64_t size : {2, 100'000}) {
      Outcome outcome = Run(part, std::vector<Tensor>(count, Ramp(size, 1)));
      EXPECT_FALSE(outcome.wire.ok()) << count << " of " << size;
    }
  }
  // The same step twice does no harm: it is the worker's, and each run is one of its own.
  for (int turn = 0; turn < 2; ++turn) EXPECT_TRUE(Run(part, {Ramp(2, 1), Ramp(2, 1)}).status.ok());
}

TEST_F(StarServiceTest, KeptValuesThatMakeNoSenseAreRefusedOrTheRunsError) {
  EXPECT_EQ(Keep(kKeptNumbersMax, 1, Ramp(2, 1)).code(), Code::kInvalid);
  Piece add("AddV2", 2);
  const uint64_t part = Place("add", TextOf(add.Take(1, 5)));
  ASSERT_TRUE(Keep(5, 1, Tensor(int64_t{3})).ok());
  Outcome other_type = Run(part, {Ramp(2, 1)});
  EXPECT_TRUE(absl::IsInvalidArgument(other_type.status)) << other_type.status;
  ASSERT_TRUE(Keep(5, 1, Ramp(3, 1)).ok());
  Outcome other_shape = Run(part, {Ramp(2, 1)});
  EXPECT_TRUE(absl::IsInvalidArgument(other_shape.status)) << other_shape.status;
  // No part takes it: it is not kept.
  ASSERT_TRUE(Keep(5, 0, Ramp(2, 1)).ok());
  EXPECT_TRUE(absl::IsAborted(Run(part, {Ramp(2, 1)}).status));
}

TEST_F(StarServiceTest, ATensorOfAnotherTypeIsTheRunsError) {
  const uint64_t part = Place("neg", TextOf(Piece("Neg", 1)));
  Outcome outcome = Run(part, {Tensor(int64_t{3})});
  ASSERT_TRUE(outcome.wire.ok());
  EXPECT_TRUE(absl::IsInvalidArgument(outcome.status)) << outcome.status;
}

TEST_F(StarServiceTest, AnOperationsErrorComesBackInItsOwnWords) {
  const uint64_t part = Place("add", TextOf(Piece("AddV2", 2)));
  Outcome outcome = Run(part, {Ramp(2, 1), Ramp(3, 1)});
  ASSERT_TRUE(outcome.wire.ok());
  EXPECT_TRUE(absl::IsInvalidArgument(outcome.status)) << outcome.status;
  EXPECT_TRUE(outcome.results.empty());
}

TEST_F(StarServiceTest, ATracedRunTellsHowLongItTook) {
  const uint64_t part = Place("neg", TextOf(Piece("Neg", 1)));
  Outcome outcome = Run(part, {Ramp(2, 1)}, kTraced);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_NE(outcome.left.find("result"), std::string::npos);  // the operation's name
}

// ---- tickets ----

TEST_F(StarServiceTest, APlacedPartSaysWhatMayBeDoneWithItsRuns) {
  EXPECT_EQ(PlaceAgain("neg", Piece("Neg", 1)), Again::kFreely);
  EXPECT_EQ(PlaceAgain("neg", Piece("Neg", 1)), Again::kFreely);  // known by now
  Piece taking("AddV2", 2);
  EXPECT_EQ(PlaceAgain("taking", taking.Take(1, 5)), Again::kTicket);
  Piece staging("Neg", 1);
  EXPECT_EQ(PlaceAgain("staging", staging.WithStaging()), Again::kNever);
  // Never two saves at the same time; another one where the value that tells of the first is lost.
  Piece saving("Neg", 1), telling("Neg", 1);
  EXPECT_EQ(PlaceAgain("saving", saving.WithSave()), Again::kTicket);
  EXPECT_EQ(PlaceAgain("telling", telling.WithSave().Leave(5)), Again::kLeaves);
}

TEST_F(StarServiceTest, ARunThatComesAgainIsAnsweredAndNotRun) {
  Piece add("AddV2", 2);
  const uint64_t part = Place("add", TextOf(add.Take(1, 5)));
  ASSERT_TRUE(Keep(5, 1, Ramp(2, 10)).ok());
  const Ticket ticket{77, 3, 3};
  for (int turn = 0; turn < 3; ++turn) {  // there is one value to take
    Outcome outcome = Run(part, {Ramp(2, 1)}, 0, ticket);
    ASSERT_TRUE(outcome.wire.ok()) << outcome.wire.ToString();
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(outcome.results[0].flat<float>()(1), 2 + 11);
  }
  EXPECT_TRUE(absl::IsAborted(Run(part, {Ramp(2, 1)}, 0, {77, 4, 4}).status));
  EXPECT_EQ(Run(part, {Ramp(2, 1)}, 0, ticket).wire.app_code(), kAnswerGone);
}

TEST_F(StarServiceTest, ItsErrorIsItsAnswerToo) {
  Piece add("AddV2", 2);
  const uint64_t part = Place("add", TextOf(add.Take(1, 5)));
  EXPECT_TRUE(absl::IsAborted(Run(part, {Ramp(2, 1)}, 0, {77, 1, 1}).status));
  ASSERT_TRUE(Keep(5, 1, Ramp(2, 10)).ok());
  EXPECT_TRUE(absl::IsAborted(Run(part, {Ramp(2, 1)}, 0, {77, 1, 1}).status));
}

TEST_F(StarServiceTest, TicketsEndWithTheSession) {
  Piece add("AddV2", 2);
  uint64_t part = Place("add", TextOf(add.Take(1, 5)));
  EXPECT_TRUE(absl::IsAborted(Run(part, {Ramp(2, 1)}, 0, {77, 1, 1}).status));
  service_->Release(kSession);
  part = Place("add", TextOf(add));
  ASSERT_TRUE(Keep(5, 1, Ramp(2, 10)).ok());
  EXPECT_TRUE(Run(part, {Ramp(2, 1)}, 0, {77, 1, 1}).status.ok());
}

TEST_F(StarServiceTest, ARunOutlivesItsConnectionAndAnswersTheNextOne) {
  Piece add("AddV2", 2);
  const uint64_t part = Place("add", TextOf(add.Take(1, 5)));
  ASSERT_TRUE(Keep(5, 1, Ramp(2, 10)).ok());
  const Ticket ticket{77, 1, 1};
  auto begin = [&](Asking* asking) {
    asking->text = RunHead(part, kWithTicket, ticket);
    EXPECT_TRUE(AppendTensor(Ramp(2, 1), &asking->text, &asking->body).ok());
    asking->head = asking->text;
    channel_->client().Start(asking);
  };
  Asking lost(kRunPart), again(kRunPart);
  begin(&lost);
  // It waits for a thread of the task's pool meanwhile, as it is the part's first run.
  world_.world.RunFor(100 * kMillisecondNs);
  world_.world.Cut("worker", "ps");
  ASSERT_TRUE(world_.RunUntil([&lost] { return lost.has_ended; }));
  EXPECT_EQ(lost.status.code(), Code::kUnavailable);
  begin(&again);
  world_.world.RunFor(kSecondNs);
  EXPECT_FALSE(again.has_ended);
  ASSERT_TRUE(world_.RunUntilWithThreads([&] {
    task_.RunHere();
    return again.has_ended;
  }));
  ASSERT_TRUE(again.status.ok()) << again.status.ToString();
  VarReader reader{ConstBytes(again.reply_head)};
  TfStatus status;
  ASSERT_TRUE(ReadTfStatus(&reader, &status).ok());
  EXPECT_TRUE(status.ok()) << status;
}

// ---- kept values ----

TEST_F(StarServiceTest, AValueThatComesTwiceIsKeptOnce) {
  Piece add("AddV2", 2);
  const uint64_t part = Place("add", TextOf(add.Take(1, 5)));
  for (int turn = 0; turn < 2; ++turn) ASSERT_TRUE(Keep(5, 1, Ramp(2, 10)).ok());
  EXPECT_TRUE(Run(part, {Ramp(2, 1)}).status.ok());
  EXPECT_TRUE(absl::IsAborted(Run(part, {Ramp(2, 1)}).status));
}

TEST_F(StarServiceTest, AKeptValueIsTakenByALaterPart) {
  Piece add("AddV2", 2);
  const uint64_t part = Place("add", TextOf(add.Take(1, 5)));
  EXPECT_TRUE(absl::IsAborted(Run(part, {Ramp(2, 1)}).status));  // before anybody has kept it
  Status kept = Keep(5, 1, Ramp(2, 10));
  ASSERT_TRUE(kept.ok()) << kept.ToString();
  Outcome outcome = Run(part, {Ramp(2, 1)});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.results[0].flat<float>()(1), 2 + 11);
  EXPECT_TRUE(absl::IsAborted(Run(part, {Ramp(2, 1)}).status));
}

TEST_F(StarServiceTest, ADroppedStepOrSessionTakesItsValuesAlong) {
  Piece add("AddV2", 2);
  uint64_t part = Place("add", TextOf(add.Take(1, 5)));
  ASSERT_TRUE(Keep(5, 1, Ramp(2, 10)).ok());
  service_->DropStep(kStep);
  EXPECT_TRUE(absl::IsAborted(Run(part, {Ramp(2, 1)}).status));
  ASSERT_TRUE(Keep(5, 1, Ramp(2, 10)).ok());
  service_->Release(kSession);
  EXPECT_EQ(Run(part, {Ramp(2, 1)}).wire.app_code(), kUnknownPart);
  part = Place("add", TextOf(add));
  EXPECT_TRUE(absl::IsAborted(Run(part, {Ramp(2, 1)}).status));
}

TEST_F(StarServiceTest, NothingIsKeptForASessionThatIsOver) {
  EXPECT_EQ(Keep(5, 1, Ramp(2, 10), "nobody").code(), Code::kInvalid);
  Piece add("AddV2", 2);
  const uint64_t part = Place("add", TextOf(add.Take(1, 5)));
  EXPECT_TRUE(absl::IsAborted(Run(part, {Ramp(2, 1)}).status));
}

TEST_F(StarServiceTest, ASessionThatEndedWithoutAWordIsForgotten) {
  const uint64_t part = Place("neg", TextOf(Piece("Neg", 1)));
  task_.End(kSession);
  service_->ReleaseEnded();
  EXPECT_EQ(Run(part, {Ramp(2, 1)}).wire.app_code(), kUnknownPart);
}

// ---- for snapshots ----

TEST_F(StarServiceTest, ASnapshotHasTheRunsWhoseAnswersTheWorkerMayNotHave) {
  Piece add("AddV2", 2), other("AddV2", 2);
  const uint64_t part = Place("add", TextOf(add.Take(1, 5))), second = Place("other", TextOf(other.Take(1, 6)));
  for (uint64_t number : {1, 2}) {
    ASSERT_TRUE(Keep(5, 1, Ramp(2, 10)).ok());
    EXPECT_TRUE(Run(part, {Ramp(2, 1)}, 0, {77, number, 1}).status.ok());
  }
  std::vector<KeptClient> clients;
  ASSERT_TRUE(service_->Collect(&clients).ok());
  ASSERT_EQ(clients.size(), 1u);
  EXPECT_EQ(clients[0].client, 77u);
  EXPECT_EQ(clients[0].runs.size(), 2u);
  // Another part has heard that the worker has the first.
  EXPECT_TRUE(absl::IsAborted(Run(second, {Ramp(2, 1)}, 0, {77, 3, 2}).status));
  clients.clear();
  ASSERT_TRUE(service_->Collect(&clients).ok());
  ASSERT_EQ(clients[0].runs.size(), 2u);
  EXPECT_EQ(clients[0].runs[0].number + clients[0].runs[1].number, 5u);
}

// A task whose snapshot has run 3 of client 77, with its answer, and run 4 without.
std::unique_ptr<Snapshots> RestoredTask() {
  tensorflow::ServerDef def;
  def.set_job_name("ps");
  const TemporaryFolder folder;
  std::unique_ptr<Snapshots> first, second;
  for (std::unique_ptr<Snapshots>* snapshots : {&first, &second}) {
    TfStatus opened = Snapshots::Open({folder.path(), 0, ""}, def, snapshots);
    EXPECT_TRUE(opened.ok()) << opened;
    if (snapshots == &second) break;
    Holding holding;
    holding.device = "CPU:0";
    holding.name = "rows";
    EXPECT_TRUE(RestoreHolding(first->devices()->HostCPU(), holding, {Ramp(2, 1)}).ok());
    tensorflow::GraphDef graph;
    graph.add_node()->set_op("VarHandleOp");
    (*graph.mutable_node(0)->mutable_attr())["shared_name"].set_s("rows");
    first->Learn(graph, true);
    Snapshots::Hooks hooks;
    hooks.collect = [](std::vector<KeptClient>* clients) {
      KeptRun run{3, true, "", {}};
      Buffers body;
      AppendTfStatus(TfStatus(), &run.head);
      EXPECT_TRUE(AppendTensor(Ramp(2, 100), &run.head, &body).ok());
      clients->push_back({77, 3, {run, {4, false, "", {}}}});
      return TfStatus();
    };
    first->Start(std::move(hooks));
    EXPECT_TRUE(first->Write().ok());
    first->Stop();
  }
  return second;
}

class RestoredStarServiceTest : public StarServiceTest {
 protected:
  RestoredStarServiceTest() : RestoredStarServiceTest(RestoredTask()) {}
  explicit RestoredStarServiceTest(std::unique_ptr<Snapshots> snapshots)
      : StarServiceTest(snapshots.get()), snapshots_(std::move(snapshots)) {}

  std::unique_ptr<Snapshots> snapshots_;
};

TEST_F(RestoredStarServiceTest, ARunThatEndedBeforeTheRestartIsAnsweredAndNotRun) {
  Piece add("AddV2", 2);
  const uint64_t part = Place("add", TextOf(add.Take(1, 5)));
  for (int turn = 0; turn < 2; ++turn) {
    Outcome outcome = Run(part, {Ramp(2, 1)}, 0, {77, 3, 3});  // it would find no value
    ASSERT_TRUE(outcome.wire.ok()) << outcome.wire.ToString();
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(outcome.results[0].flat<float>()(1), 101);
  }
  EXPECT_EQ(Run(part, {Ramp(2, 1)}, 0, {77, 4, 3}).wire.app_code(), kAnswerGone);
  ASSERT_TRUE(Keep(5, 1, Ramp(2, 10)).ok());
  EXPECT_TRUE(Run(part, {Ramp(2, 1)}, 0, {77, 5, 3}).status.ok());
  std::vector<KeptClient> clients;
  ASSERT_TRUE(service_->Collect(&clients).ok());
  ASSERT_EQ(clients.size(), 1u);
  EXPECT_EQ(clients[0].runs.size(), 3u);
}

}  // namespace
}  // namespace fusewire::tf
