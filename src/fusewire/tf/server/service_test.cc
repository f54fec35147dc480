// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Tests: server/worker.cc. The data port of a task, asked as its peers ask; and the worker behind it, over gRPC.
#include "fusewire/tf/server/service.h"

#include <memory>
#include <string>
#include <utility>

#include "fusewire/tf/bridge/tensor.h"
#include "fusewire/tf/heads/calls.h"
#include "fusewire/tf/peer/fused.h"
#include "fusewire/tf/provide/producers_test.h"
#include "fusewire/tf/star/serve/task_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

using testing::HasSubstr;

class Question final : public rpc::Call {
 public:
  explicit Question(uint16_t number) : Call(number) {}
  // The status of TensorFlow's call in the answer.
  TfStatus OfTensorFlow() const {
    VarReader reader{ConstBytes(reply_head)};
    TfStatus said;
    EXPECT_TRUE(ReadTfStatus(&reader, &said).ok());
    return said;
  }
  std::string text;
  bool has_ended = false;
  Status status;

 private:
  void OnDone(Status done) override {
    status = std::move(done);
    has_ended = true;
  }
};

class ServiceTest : public testing::Test {
 protected:
  ServiceTest() {
    task_.env.rendezvous_mgr = &producers_;
    worker_ = std::make_unique<Worker>(&task_.env, tensorflow::ConfigProto(), /*is_grpc_only=*/false,
                                       /*must_encrypt=*/false);
    service_ = std::make_unique<Service>(&task_.env, worker_.get(), known_);
    task::Task& task = world_.MakePeerTask();
    Status opened = service_->Open(task);
    EXPECT_TRUE(opened.ok()) << opened.ToString();
    Status listening = task.Listen({"", 5555});
    EXPECT_TRUE(listening.ok()) << listening.ToString();
    channel_ = world_.MakeChannel();
  }
  ~ServiceTest() override {
    channel_.reset();
    service_.reset();
    world_.ClosePeer();
  }

  void Ask(Question* question) {
    question->head = question->text;
    channel_->client().Start(question);
    ASSERT_TRUE(world_.RunUntilWithThreads([this, question] {
      task_.RunHere();
      return question->has_ended;
    }));
  }
  // The key of a tensor that stands on the task's own processor.
  std::string OwnKey(const std::string& edge) {
    tensorflow::Device* cpu = task_.env.device_mgr->ListDevices().front();
    return tensorflow::Rendezvous::CreateKey(cpu->name(), cpu->attributes().incarnation(),
                                             "/job:worker/replica:0/task:0/device:CPU:0", edge,
                                             tensorflow::FrameAndIter(0, 0));
  }

  Task task_{/*threads=*/0};
  Producers producers_;
  DataWorld world_{/*has_peer=*/false};
  std::unique_ptr<Worker> worker_;
  const WhereaboutsPtr known_ = std::make_shared<Whereabouts>();
  std::unique_ptr<Service> service_;
  ChannelPtr channel_;
};

TEST_F(ServiceTest, SendsATensorThatIsAskedFor) {
  producers_.Have("edge", Ramp(3, 4));
  Question question(kReceive);
  KeyNames names;
  names.Begin(1, &question.text);
  names.Append(OwnKey("edge"), kStep, &question.text);
  Ask(&question);
  ASSERT_TRUE(question.status.ok()) << question.status.ToString();
  VarReader reader{ConstBytes(question.reply_head)};
  EXPECT_EQ(reader.Varint(), 0u);
  EXPECT_EQ(reader.Byte(), kValue);
  TensorLanding landing;
  TensorPlace place;
  place.device = WorkersCpu();
  ASSERT_TRUE(landing.Begin(&reader, place, [] { return UINT64_MAX; }).ok());
  landing.Finish(place, [](const TfStatus& status, const tensorflow::Tensor& tensor) {
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(tensor.flat<float>()(2), 6);
  });
}

TEST_F(ServiceTest, AsksForKeysThatItDoesNotKnow) {
  Question question(kReceive);
  AppendFixed64(&question.text, 99);  // of an asker that has not said any key
  AppendVarint(&question.text, 1);
  AppendVarint(&question.text, 5 << 3 | 2);
  AppendFixed64(&question.text, static_cast<uint64_t>(kStep));
  Ask(&question);
  EXPECT_EQ(question.status.code(), Code::kApplication);
  EXPECT_EQ(question.status.app_code(), kUnknownKeys);
}

TEST_F(ServiceTest, RefusesAQuestionThatCannotBeReadAndNamesTheField) {
  Question cut(kReceive);
  cut.text = "ab";
  Ask(&cut);
  EXPECT_EQ(cut.status.code(), Code::kInvalid);
  EXPECT_THAT(cut.status.ToString(), HasSubstr("it has 2 bytes"));

  Question none(kReceive);
  AppendFixed64(&none.text, 99);
  AppendVarint(&none.text, 1);
  AppendVarint(&none.text, 0);  // neither a key nor the number of one
  Ask(&none);
  EXPECT_THAT(none.status.ToString(), HasSubstr("at want 1 of 1: it has neither a key nor the number of one"));

  Question cleanups(kCleanupGraph);
  AppendVarint(&cleanups.text, 2);
  AppendFixed64(&cleanups.text, 1);
  Ask(&cleanups);
  EXPECT_THAT(cleanups.status.ToString(), HasSubstr("a list of steps to clean up is cut off"));

  Question abort(kAbortStep);
  abort.text = "abc";
  Ask(&abort);
  EXPECT_THAT(abort.status.ToString(), HasSubstr("the number of a step to abort is cut off"));
}

TEST_F(ServiceTest, OnceItHasASuccessorTheWorkerTakesNoGraphsAndNoSteps) {
  worker_->Fence([](PortWords*) { return false; });
  for (uint16_t number : {kRegisterGraph, kRunGraph}) {
    Question question(number);
    if (number == kRunGraph) question.text.push_back(0);  // no cleanups
    Ask(&question);
    ASSERT_TRUE(question.status.ok()) << question.status.ToString();
    EXPECT_TRUE(absl::IsUnavailable(question.OfTensorFlow()));
    EXPECT_THAT(std::string(question.OfTensorFlow().message()), HasSubstr("has lost its task to another one"));
  }
  TfStatus session;
  tensorflow::CreateWorkerSessionRequest request;
  tensorflow::CreateWorkerSessionResponse response;
  worker_->CreateWorkerSessionAsync(&request, &response, [&session](const TfStatus& status) { session = status; });
  EXPECT_TRUE(absl::IsUnavailable(session));
}

// The limit once bound only honest askers: 800,000 wants took 443 MiB, and all peers of this reactor waited for a
// second.
TEST_F(ServiceTest, RefusesACallForMoreThanItMayAsk) {
  Question wants(kReceive);
  KeyNames names;
  constexpr size_t kMany = 300'000;  // as many as fit into one head
  names.Begin(kMany, &wants.text);
  names.Append(OwnKey("edge"), kStep, &wants.text);
  names.Known(names.said());
  for (size_t i = 1; i < kMany; ++i) names.Append(OwnKey("edge"), kStep, &wants.text);
  Ask(&wants);
  EXPECT_EQ(wants.status.code(), Code::kInvalid);
  EXPECT_THAT(wants.status.ToString(), HasSubstr("one call may ask for 512"));
  EXPECT_FALSE(wants.status.peer().empty());

  Question cleanups(kCleanupGraph);
  AppendVarint(&cleanups.text, kCleanupsMax + 1);
  for (size_t i = 0; i <= kCleanupsMax; ++i) AppendFixed64(&cleanups.text, i);
  Ask(&cleanups);
  EXPECT_EQ(cleanups.status.code(), Code::kInvalid);
  EXPECT_THAT(cleanups.status.ToString(), HasSubstr("of more than 256 steps"));
}

TEST_F(ServiceTest, CallsTensorFlowsWorkerAndAnswersWithItsStatus) {
  Question good(kCleanupAll);
  Buffers none;
  ASSERT_TRUE(AppendProto(tensorflow::CleanupAllRequest(), &good.text, &none));
  Ask(&good);
  ASSERT_TRUE(good.status.ok()) << good.status.ToString();
  EXPECT_TRUE(good.OfTensorFlow().ok()) << good.OfTensorFlow();

  Question unknown(kDeregisterGraph);
  unknown.text = "\xff\xff";
  Ask(&unknown);
  ASSERT_TRUE(unknown.status.ok()) << unknown.status.ToString();
  EXPECT_TRUE(absl::IsInvalidArgument(unknown.OfTensorFlow())) << unknown.OfTensorFlow();
}

TEST_F(ServiceTest, CleansUpStepsThatCallsBring) {
  Question question(kCleanupGraph);
  AppendVarint(&question.text, 2);
  for (uint64_t step : {1, 2}) AppendFixed64(&question.text, step);
  Ask(&question);
  EXPECT_TRUE(question.status.ok()) << question.status.ToString();
}

// ---- over gRPC ----

TEST_F(ServiceTest, ItsWorkerTellsTheDataPort) {
  PortWords words;
  words.port = 5555;
  words.incarnation = 17;
  words.fuses = true;
  worker_->Announce(words);
  tensorflow::LoggingRequest request;
  tensorflow::LoggingResponse response;
  PortWords::Ask(&request);
  TfStatus status = absl::UnknownError("not called");
  worker_->LoggingAsync(&request, &response, [&status](const TfStatus& end) { status = end; });
  ASSERT_TRUE(status.ok()) << status;
  PortWords read;
  ASSERT_TRUE(read.Read(response));
  EXPECT_EQ(read.port, 5555);
  EXPECT_EQ(read.incarnation, 17u);
}

TEST_F(ServiceTest, ItsWorkerRefusesAFusedReceiveThatCannotBeRead) {
  ParsedKeys keys(1);
  ASSERT_TRUE(tensorflow::Rendezvous::ParseKey(OwnKey("edge"), &keys[0]).ok());
  tensorflow::RecvTensorRequest request;
  request.set_step_id(kStep);
  request.set_request_id(123);
  AskFused(keys, &request);
  request.mutable_transport_options()->set_value("\x07");
  tensorflow::CallOptions options;
  TfStatus status;
  worker_->GrpcRecvTensorAsync(&options, &request, nullptr, [&status](const TfStatus& end) { status = end; });
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("it announces 7 keys, and 0 bytes follow"));
}

}  // namespace
}  // namespace fusewire::tf
