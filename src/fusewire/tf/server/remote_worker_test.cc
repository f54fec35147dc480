// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/remote_worker.h"

#include <atomic>
#include <memory>

#include "fusewire/tf/receive/step_test.h"

#include <gtest/gtest.h>
#include <tensorflow/core/distributed_runtime/call_options.h>

namespace fusewire::tf {
namespace {

// The worker of a task whose data port is not known yet.
class RemoteWorkerWorld : public testing::Test {
 protected:
  RemoteWorkerWorld() {
    Ways ways;
    EXPECT_TRUE(FindWays(on_.task.session->GetSharedWorkerCache(), kPeerTask, &ways).ok());
    worker_ = std::make_unique<RemoteWorker>(std::move(ways));
  }
  // TensorFlow deletes the request, and may have deleted the session's cache, before the peer has answered.
  template <class Request, class Response>
  void EndsAtOnceAndAllIsDeleted(void (tensorflow::WorkerInterface::*method)(const Request*, Response*,
                                                                             tensorflow::StatusCallback),
                                 Request wanted) {
    auto request = std::make_unique<Request>(std::move(wanted));
    auto response = std::make_unique<Response>();
    (worker_.get()->*method)(request.get(), response.get(), [this](const TfStatus& status) {
      EXPECT_TRUE(status.ok()) << status;
      ends_.fetch_add(1);
    });
    EXPECT_EQ(ends_.load(), 1);
    worker_.reset();
  }

  StepWorld on_;
  std::unique_ptr<RemoteWorker> worker_;
  std::atomic<int> ends_{0};
};

// A call of a collective.
class RemoteWorkerTest : public RemoteWorkerWorld {
 protected:
  RemoteWorkerTest() {
    worker_->CompleteInstanceAsync(&options_, &request_, &response_, [this](const TfStatus& status) {
      status_ = status;
      ends_.fetch_add(1);
    });
    EXPECT_EQ(on_.grpc().asked.size(), 1u);
  }
  bool AwaitEnd() {
    return on_.world.RunUntilWithThreads([this] { return ends_.load() > 0; });
  }

  tensorflow::CallOptions options_;
  tensorflow::CompleteInstanceRequest request_;
  tensorflow::CompleteInstanceResponse response_;
  TfStatus status_;
};

TEST_F(RemoteWorkerTest, ACallThatIsCancelledWaitsForNoWay) {
  options_.StartCancel();
  ASSERT_TRUE(AwaitEnd());
  EXPECT_TRUE(absl::IsCancelled(status_)) << status_;
  on_.AnswerPort();  // which was still being asked for
  on_.world.world.RunFor(kSecondNs);
  EXPECT_EQ(ends_.load(), 1);
  EXPECT_TRUE(on_.world.asked.empty());
}

TEST_F(RemoteWorkerTest, ACallThatFoundTheWayIsCancelledThere) {
  on_.AnswerPort();
  options_.StartCancel();
  ASSERT_TRUE(AwaitEnd());
  EXPECT_TRUE(absl::IsCancelled(status_)) << status_;
  EXPECT_EQ(ends_.load(), 1);
}

TEST_F(RemoteWorkerTest, AFailedSearchSaysWhy) {
  on_.grpc().Answer(TfStatus(absl::UnavailableError("connection refused")));
  EXPECT_EQ(ends_.load(), 1);
  EXPECT_TRUE(absl::IsUnavailable(status_)) << status_;
  options_.StartCancel();
  on_.world.world.RunFor(kSecondNs);
  EXPECT_EQ(ends_.load(), 1);
}

// A master's calls of one step, of which the first one fails at once.
TEST_F(RemoteWorkerWorld, APartialRunThatHasBegunElsewhereEnds) {
  tensorflow::MutableProtoRunGraphRequest request;
  request.set_is_partial(true);
  request.set_step_id(79);
  on_.KnowPeer();
  worker_->ways().peer->retelling().KeepPartialRun(request.ToProto(), on_.world.incarnation + 1);
  struct Call {
    tensorflow::CallOptions options;
    tensorflow::OwnedProtoRunGraphResponse response;
    TfStatus end;
  };
  Call first, second;
  for (Call* call : {&first, &second}) {
    worker_->RunGraphAsync(&call->options, &request, &call->response, [this, call](const TfStatus& status) {
      call->end = status;
      ends_.fetch_add(1);
    });
    EXPECT_EQ(ends_.load(), 1);
    worker_->ways().peer->retelling().DropPartialRun(79);
  }
  EXPECT_TRUE(absl::IsUnavailable(first.end)) << first.end;
  ASSERT_TRUE(on_.world.RunUntilWithThreads([this] { return ends_.load() == 2; }));
  EXPECT_TRUE(absl::IsCancelled(second.end)) << second.end;
}

TEST_F(RemoteWorkerWorld, AGraphIsDeregisteredWithoutWaiting) {
  tensorflow::DeregisterGraphRequest request;
  request.set_graph_handle("graph");
  EndsAtOnceAndAllIsDeleted(&tensorflow::WorkerInterface::DeregisterGraphAsync, request);
  on_.AnswerPort();
  on_.world.world.RunFor(kSecondNs);
  EXPECT_EQ(ends_.load(), 1);
}

// At its end TensorFlow lets go of the step's graph, which calls the session's cache.
TEST_F(RemoteWorkerWorld, LoggingIsSwitchedWithoutWaiting) {
  tensorflow::LoggingRequest request;
  request.set_disable_rpc_logging(true);
  EndsAtOnceAndAllIsDeleted(&tensorflow::WorkerInterface::LoggingAsync, request);
  ASSERT_EQ(on_.grpc().asked.size(), 1u);
  EXPECT_TRUE(on_.grpc().asked[0].request->disable_rpc_logging());
  on_.grpc().Answer(TfStatus());
  EXPECT_EQ(ends_.load(), 1);
}

TEST_F(RemoteWorkerWorld, LoggedStepsAreWaitedFor) {
  tensorflow::LoggingRequest request;
  tensorflow::LoggingResponse response;
  request.add_fetch_step_id(7);
  worker_->LoggingAsync(&request, &response, [this](const TfStatus&) { ends_.fetch_add(1); });
  EXPECT_EQ(ends_.load(), 0);
  ASSERT_EQ(on_.grpc().asked.size(), 1u);
  EXPECT_EQ(on_.grpc().asked[0].response, &response);
  on_.grpc().Answer(TfStatus());
  EXPECT_EQ(ends_.load(), 1);
}

}  // namespace
}  // namespace fusewire::tf
