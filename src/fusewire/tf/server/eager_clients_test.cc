// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/worker_cache.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tensorflow/core/framework/tensor.h>

namespace fusewire::tf {
namespace {

namespace eager = tensorflow::eager;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kTask = "/job:worker/replica:0/task:0";

// Counts what would go over gRPC, and answers at once.
class CountingClient final : public eager::EagerClient {
 public:
  explicit CountingClient(int* sent) : sent_(sent) {}
  using Done = tensorflow::StatusCallback;
  using Options = tensorflow::CallOptions;

  void CreateContextAsync(const eager::CreateContextRequest*, eager::CreateContextResponse*, Done done) override {
    Send(done);
  }
  void CreateContextAsync(const eager::CreateContextRequest*, eager::CreateContextResponse*, Done done, int64_t,
                          int) override {
    Send(done);
  }
  void UpdateContextAsync(const eager::UpdateContextRequest*, eager::UpdateContextResponse*, Done done) override {
    Send(done);
  }
  void WaitQueueDoneAsync(const eager::WaitQueueDoneRequest*, eager::WaitQueueDoneResponse*, Done done) override {
    Send(done);
  }
  void KeepAliveAsync(const eager::KeepAliveRequest*, eager::KeepAliveResponse*, Done done) override { Send(done); }
  void CloseContextAsync(const eager::CloseContextRequest*, eager::CloseContextResponse*, Done done) override {
    Send(done);
  }
  void EnqueueAsync(Options*, const eager::EnqueueRequest*, eager::EnqueueResponse*, Done done) override { Send(done); }
  void RunComponentFunctionAsync(Options*, const eager::RunComponentFunctionRequest*,
                                 eager::RunComponentFunctionResponse*, Done done) override {
    Send(done);
  }
  void StreamingEnqueueAsync(bool, Options*, const eager::EnqueueRequest*, eager::EnqueueResponse*,
                             Done done) override {
    Send(done);
  }
  bool allow_multiple_pending_requests() const override { return false; }

 private:
  void Send(const Done& done) {
    ++*sent_;
    done(TfStatus());
  }
  int* const sent_;
};

class CountingCache final : public eager::EagerClientCache {
 public:
  explicit CountingCache(int* sent) : sent_(sent) {}
  TfStatus GetClient(const std::string& target, tensorflow::core::RefCountPtr<eager::EagerClient>* client) override {
    if (target != kTask) return absl::InvalidArgumentError("no such task");
    client->reset(new CountingClient(sent_));
    return TfStatus();
  }

 private:
  int* const sent_;
};

class EagerClientsTest : public testing::Test {
 protected:
  EagerClientsTest() {
    TfStatus found = clients_.GetClient(kTask, &client_);
    EXPECT_TRUE(found.ok()) << found;
  }
  // By each of the two ways; they agree.
  TfStatus Enqueue(const eager::EnqueueRequest& request) {
    eager::EnqueueResponse response;
    std::vector<TfStatus> ends;
    auto end = [&ends](const TfStatus& status) { ends.push_back(status); };
    client_->EnqueueAsync(nullptr, &request, &response, end);
    client_->StreamingEnqueueAsync(true, nullptr, &request, &response, end);
    EXPECT_EQ(ends.size(), 2u);
    EXPECT_EQ(ends.front(), ends.back());
    return ends.front();
  }
  TfStatus Run(const eager::RunComponentFunctionRequest& request) {
    eager::RunComponentFunctionResponse response;
    TfStatus end = absl::UnknownError("no answer");
    client_->RunComponentFunctionAsync(nullptr, &request, &response, [&end](const TfStatus& status) { end = status; });
    return end;
  }
  static void Fill(tensorflow::TensorProto* proto) { tensorflow::Tensor(42.0F).AsProtoTensorContent(proto); }

  int sent_ = 0;
  EagerClients clients_{std::make_unique<CountingCache>(&sent_)};
  tensorflow::core::RefCountPtr<eager::EagerClient> client_;
};

TEST_F(EagerClientsTest, ATasksClientIsTheSameEachTime) {
  tensorflow::core::RefCountPtr<eager::EagerClient> again, other;
  ASSERT_TRUE(clients_.GetClient(kTask, &again).ok());
  EXPECT_EQ(again.get(), client_.get());
  EXPECT_TRUE(absl::IsInvalidArgument(clients_.GetClient("/job:ps/replica:0/task:9", &other)));
}

TEST_F(EagerClientsTest, SendProgramsAndHandles) {
  eager::EnqueueRequest request;
  eager::Operation* operation = request.add_queue()->mutable_operation();
  operation->set_id(7);
  operation->add_op_inputs()->mutable_remote_handle()->set_op_id(6);
  operation->add_op_inputs()->mutable_tensor()->set_dtype(tensorflow::DT_RESOURCE);
  request.add_queue()->mutable_register_function()->mutable_function_def()->mutable_signature()->set_name("f");
  request.add_queue()->mutable_handle_to_decref()->set_op_id(6);
  request.add_queue()->mutable_send_packed_handle()->add_handles()->mutable_local_handle()->mutable_tensor()->set_dtype(
      tensorflow::DT_RESOURCE);
  TfStatus end = Enqueue(request);
  EXPECT_TRUE(end.ok()) << end;
  eager::RunComponentFunctionRequest run;
  *run.mutable_operation() = *operation;
  run.mutable_operation()->set_is_function(true);
  run.mutable_operation()->set_is_component_function(true);
  end = Run(run);
  EXPECT_TRUE(end.ok()) << end;
  EXPECT_EQ(sent_, 3);
}

TEST_F(EagerClientsTest, SendNoTensor) {
  eager::EnqueueRequest copy, packed, argument;
  copy.add_queue()->mutable_handle_to_decref()->set_op_id(6);  // it is not the first of its message
  Fill(copy.add_queue()->mutable_send_tensor()->add_tensors());
  Fill(packed.add_queue()->mutable_send_packed_handle()->add_handles()->mutable_local_handle()->mutable_tensor());
  argument.add_queue()->mutable_operation()->set_name("AddV2");
  Fill(argument.mutable_queue(0)->mutable_operation()->add_op_inputs()->mutable_tensor());
  for (const auto& [request, what] :
       {std::pair(copy, "a tensor of type float"), std::pair(packed, "a packed tensor of type float"),
        std::pair(argument, "an argument of type float of AddV2")}) {
    TfStatus end = Enqueue(request);
    EXPECT_TRUE(absl::IsFailedPrecondition(end)) << end;
    EXPECT_THAT(std::string(end.message()),
                AllOf(HasSubstr(kTask), HasSubstr(what), HasSubstr("FUSEWIRE_TLS_CERT"), HasSubstr("next: ")));
  }
  EXPECT_EQ(sent_, 0);
}

TEST_F(EagerClientsTest, AFunctionsArgumentsAndResultsAreNotInItsMessages) {
  eager::RunComponentFunctionRequest given, gotten;
  for (eager::RunComponentFunctionRequest* request : {&given, &gotten}) {
    request->mutable_operation()->set_name("f");
    request->mutable_operation()->set_is_function(true);
    request->mutable_operation()->set_is_component_function(true);
  }
  given.mutable_operation()->set_id(7);
  Fill(given.mutable_operation()->add_op_inputs()->mutable_tensor());
  gotten.mutable_operation()->set_id(-1);
  for (const auto& [request, what] :
       {std::pair(given, "an argument of type float of f"), std::pair(gotten, "back the results of f")}) {
    TfStatus end = Run(request);
    EXPECT_TRUE(absl::IsFailedPrecondition(end)) << end;
    EXPECT_THAT(std::string(end.message()), AllOf(HasSubstr(kTask), HasSubstr(what), HasSubstr("next: ")));
  }
  EXPECT_EQ(sent_, 0);
}

}  // namespace
}  // namespace fusewire::tf
