// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/inquiry.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/observe/watch.h"
#include "fusewire/tf/bridge/threads_test.h"
#include "fusewire/tf/peer/grpc_test.h"
#include "fusewire/tf/peer/world_test.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tensorflow/core/platform/env.h>

namespace fusewire::tf {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kInquiryStep = 0x6675736577686f69;  // as python/fusewire/inspect/inquiry.py has it

tensorflow::LoggingRequest RequestOf(const std::string& text) {
  tensorflow::LoggingRequest request;
  request.add_fetch_step_id(kInquiryStep);
  for (size_t at = 0; at < text.size(); at += 8) {
    uint64_t word = 0;
    for (size_t i = 0; i < 8 && at + i < text.size(); ++i)
      word |= static_cast<uint64_t>(static_cast<uint8_t>(text[at + i])) << (8 * i);
    request.add_fetch_step_id(static_cast<int64_t>(word));
  }
  return request;
}

class InquiryTest : public testing::Test {
 protected:
  InquiryTest() {
    auto cluster = std::make_shared<Cluster>();
    cluster->grpc = grpc_;
    cluster->own_target = kOwnTask;
    cluster->addresses = {{kPeerTask, "ps:2222"}, {kOwnTask, "worker:2222"}};
    cluster_ = std::move(cluster);
    Inquiries::Options options;
    options.protocol = "grpc++";
    options.data_port = 4711;
    options.cluster = [this] { return cluster_; };
    options.find = [this](const std::string& task, Ways* ways) { return FindTask(cluster_, directory_, task, ways); };
    Open(std::move(options));
  }
  void Open(Inquiries::Options options) { inquiries_ = std::make_unique<Inquiries>(std::move(options)); }
  Inquiries::Options OptionsWithOrders() {
    Inquiries::Options options;
    options.cluster = [this] { return cluster_; };
    options.secret = kSecret;
    options.order = [this](const std::string& words, std::string* done) {
      orders_.push_back(words);
      *done = "so be it";
      return words == "impossible" ? TfStatus(absl::InternalError("it can't be done")) : TfStatus();
    };
    return options;
  }
  // As an operator who knows `secret` says it to the task at `host`.
  static std::string OrderOf(const std::string& words, const std::string& secret = kSecret,
                             const std::string& host = "worker:2222") {
    const std::string time = absl::StrCat(tensorflow::Env::Default()->NowMicros() / 1000 + 1);
    const std::string nonce = absl::StrCat("0123456789abcde", absl::Hex(nonces_++ % 16));
    return absl::StrCat("order ", time, ":", nonce, ":", observe::ProofOf(secret, time, nonce, host, words), " ",
                        words);
  }

  // The JSON; empty if the answer has not come.
  struct Answer {
    tensorflow::LoggingResponse response;
    bool has_come = false;
    std::string json() const {
      EXPECT_EQ(response.step_size(), 1);
      EXPECT_EQ(response.step(0).step_id(), kInquiryStep);
      return response.step(0).step_stats().dev_stats(0).device();
    }
  };
  void Ask(const std::string& text, Answer* answer) {
    const tensorflow::LoggingRequest request = RequestOf(text);
    ASSERT_TRUE(Inquiries::IsAsked(request));
    inquiries_->Answer(request, &answer->response, [answer](const TfStatus& status) {
      EXPECT_TRUE(status.ok()) << status;
      answer->has_come = true;
    });
  }
  std::string AnswerNow(const std::string& text) {
    Answer answer;
    Ask(text, &answer);
    EXPECT_TRUE(answer.has_come);
    return answer.json();
  }
  // Orders are carried out on another thread.
  std::string AwaitAnswer(const std::string& text) {
    const tensorflow::LoggingRequest request = RequestOf(text);
    tensorflow::LoggingResponse response;
    Ends come;
    inquiries_->Answer(request, &response, [&come](const TfStatus&) { come.Add(); });
    EXPECT_TRUE(come.Await(1));
    return response.step(0).step_stats().dev_stats(0).device();
  }
  void SayDataPort(uint16_t port) {
    PortWords words;
    words.port = port;
    words.incarnation = 1;
    grpc_->worker().Answer(words);
  }

  DataWorld world_{true, [](reactor::Pool&) {
                     std::vector<rpc::Method> methods;
                     methods.push_back(EchoMethod());
                     return methods;
                   }};
  const std::shared_ptr<FakeCache> grpc_ = std::make_shared<FakeCache>(kPeerTask);
  ClusterPtr cluster_;
  Directory directory_{world_.worker.get(), Directory::Options{kSecondNs, 0, false, false, {}, ""}};
  static constexpr const char* kSecret = "a secret of the tests";
  static inline uint64_t nonces_ = 0;
  std::vector<std::string> orders_;
  std::unique_ptr<Inquiries> inquiries_;
};

TEST_F(InquiryTest, TellsTheTasksNameAndIncarnation) {
  EXPECT_THAT(AnswerNow("about"),
              AllOf(HasSubstr(R"("task":"worker:0","protocol":"grpc++","data_port":4711,"wall_ns":1)"),
                    HasSubstr(R"("members":{"ps:0":"ps:2222","worker:0":"worker:2222"})"),
                    HasSubstr(absl::StrCat(R"("fusewire":")", observe::Version()))));
}

TEST_F(InquiryTest, MeasuresTheWayToATaskOneAtATime) {
  Answer first, second, third;
  Ask("measure ps:0", &first);
  EXPECT_FALSE(first.has_come);
  SayDataPort(5555);
  Ask("measure ps:0", &second);
  ASSERT_TRUE(second.has_come);
  EXPECT_THAT(second.json(), HasSubstr(R"({"error":"busy)"));
  ASSERT_TRUE(world_.RunUntil([&first] { return first.has_come; }));
  EXPECT_THAT(first.json(), AllOf(HasSubstr(R"({"wire":"loopback","best_round_trip_ns":)"),
                                  HasSubstr(R"("median_round_trip_ns":)"), HasSubstr(R"("bytes_per_s":)")));
  Ask("measure ps:0", &third);
  ASSERT_TRUE(world_.RunUntil([&third] { return third.has_come; }));
  EXPECT_THAT(third.json(), HasSubstr("bytes_per_s"));
}

TEST_F(InquiryTest, SaysWhyAWayCannotBeMeasured) {
  EXPECT_THAT(AnswerNow("measure ps:7"), HasSubstr(R"({"error":"its cluster has no task ps:7"})"));
  EXPECT_THAT(AnswerNow("measure worker:0"), HasSubstr("\"error\""));  // itself
  Answer answer;
  Ask("measure ps:0", &answer);
  SayDataPort(0);
  ASSERT_TRUE(answer.has_come);
  EXPECT_THAT(answer.json(), HasSubstr(R"({"error":"no data port)"));
}

TEST_F(InquiryTest, OfADeadDataPortIsAnErrorInTime) {
  world_.KillPeer();
  Answer answer;
  Ask("measure ps:0", &answer);
  SayDataPort(5555);
  ASSERT_TRUE(world_.RunUntil([&answer] { return answer.has_come; }));
  EXPECT_THAT(answer.json(), HasSubstr(R"({"error":"unavailable)"));
}

TEST_F(InquiryTest, TakesAnOrderOnceFromAnyoneWithTheSecret) {
  Open(OptionsWithOrders());
  const std::string order = OrderOf("adopt ps:3");
  EXPECT_EQ(AwaitAnswer(order), R"({"done":"so be it"})");
  EXPECT_EQ(orders_, std::vector<std::string>{"adopt ps:3"});
  EXPECT_THAT(AwaitAnswer(order), HasSubstr("the proof has been used"));
  EXPECT_EQ(AwaitAnswer(OrderOf("impossible")), R"({"error":"it can't be done"})");
  orders_.clear();
  EXPECT_THAT(AwaitAnswer(OrderOf("adopt ps:3", "another secret of the tests")), HasSubstr("the proof is wrong"));
  EXPECT_THAT(AwaitAnswer(OrderOf("adopt ps:3", kSecret, "worker:2223")), HasSubstr("the proof is wrong"));
  EXPECT_THAT(AwaitAnswer(OrderOf("adopt ps:3") + "3"), HasSubstr("the proof is wrong"));
  EXPECT_THAT(AwaitAnswer("order adopt ps:3"), HasSubstr("the proof is not TIME:NONCE:PROOF"));
  EXPECT_TRUE(orders_.empty());
}

TEST_F(InquiryTest, WithoutASecretOrSnapshotsItTakesNoOrders) {
  EXPECT_THAT(AwaitAnswer(OrderOf("adopt ps:3")), HasSubstr("it keeps no snapshots"));
  Inquiries::Options options = OptionsWithOrders();
  options.secret.clear();
  Open(std::move(options));
  EXPECT_THAT(AwaitAnswer(OrderOf("adopt ps:3", "")), HasSubstr("its cluster has no secret"));
  EXPECT_TRUE(orders_.empty());
}

TEST_F(InquiryTest, AnyTextHasAnAnswer) {
  for (const char* text : {"x", "measure", "measure ", "aboutabout", "\"\\\n"})
    EXPECT_THAT(AnswerNow(text), HasSubstr("\"error\"")) << text;
}

TEST_F(InquiryTest, OtherRequestsAreRefused) {
  tensorflow::LoggingRequest request;
  EXPECT_FALSE(Inquiries::IsAsked(request));
  request.add_fetch_step_id(kInquiryStep);
  EXPECT_FALSE(Inquiries::IsAsked(request));
  request.add_fetch_step_id(1);
  EXPECT_TRUE(Inquiries::IsAsked(request));
  EXPECT_FALSE(PortWords::IsAsked(request));
  for (int i = 0; i < 100; ++i) request.add_fetch_step_id(1);
  EXPECT_FALSE(Inquiries::IsAsked(request));
  PortWords::Ask(&request);
  EXPECT_FALSE(Inquiries::IsAsked(request));
}

}  // namespace
}  // namespace fusewire::tf
