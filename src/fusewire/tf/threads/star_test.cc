// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Many threads, real reactors, real sockets: steps run parts at a parameter server, and are cancelled, while sessions
// come and go there. What ThreadSanitizer looks at: tools/test.sh tf-tsan.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fusewire/reactor/reactor.h"
#include "fusewire/tf/bridge/threads_test.h"
#include "fusewire/tf/receive/step_test.h"
#include "fusewire/tf/star/call/run_test.h"
#include "fusewire/tf/star/serve/star_service.h"
#include "fusewire/tf/star/serve/task_test.h"

#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

using tensorflow::Tensor;

class StarThreadsTest : public testing::Test {
 protected:
  static constexpr int kThreads = 3, kRounds = 40;

  StarThreadsTest() {
    servers_.Begin("session");
    auto opened = rpc::Server::Open(*server_task_, {"127.0.0.1", 0}, service_->Methods(server_task_->pool()));
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    server_ = std::move(opened).value();
    auto grpc = std::make_unique<FakeWorker>();
    FakeWorker& way = *grpc;
    workers_ = std::make_unique<StepTask>(WorkersTask(), "127.0.0.1:2222", std::move(grpc));
    Ways ways;
    EXPECT_TRUE(FindWays(workers_->session->GetSharedWorkerCache(), kPeerTask, &ways).ok());
    ways.peer->Route(ways.side, [](const TfStatus&, const ChannelPtr&) {});
    PortWords words;
    words.port = server_->address().port;
    way.Answer(words);
  }
  ~StarThreadsTest() override {
    server_.reset();
    EXPECT_TRUE(servers_.AwaitIdle());
    service_.reset();
  }

  void RunSteps(tensorflow::OpKernel* kernel, int thread) {
    for (int round = 0; round < kRounds; ++round) {
      tensorflow::CancellationManager cancellation;
      Ends stops;
      const bool is_stopped = round % 4 == 0;
      const int64_t size = round % 8 == 1 ? 20'000 : 3;
      {
        RunningOp running(workers_.get(), kernel, thread * 1000 + round + 1, Ramp(size, 1), &cancellation);
        if (is_stopped) {
          stoppers_.Schedule([&cancellation, &stops] {
            cancellation.StartCancel();
            stops.Add();
          });
        }
        ASSERT_TRUE(running.ends.Await(1));
        ASSERT_TRUE(!is_stopped || stops.Await(1));
        EXPECT_EQ(running.ends.count(), 1);
        if (running.status().ok()) {
          ASSERT_EQ(running.output().NumElements(), size);
          EXPECT_EQ(running.output().flat<float>()(2), -3);
          done_.fetch_add(1);
        } else {
          EXPECT_TRUE(is_stopped || absl::IsAborted(running.status())) << running.status();
        }
      }
      workers_->manager->Cleanup(thread * 1000 + round + 1);
    }
  }

  Task servers_;
  const std::unique_ptr<task::Task> server_task_ = StartTask("ps");
  std::unique_ptr<StarService> service_ = std::make_unique<StarService>(&servers_.env);
  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<StepTask> workers_;
  TestThreads stoppers_{2};
  std::atomic<int> done_{0};
};

TEST_F(StarThreadsTest, StepsRunAndAreCancelledWhileTheServerForgetsTheirPart) {
  const std::string piece = Piece("Neg", 1).request.SerializeAsString();
  auto kernel = MakeRunOp(workers_->cpu(), piece, /*is_alone=*/false);
  auto alone = MakeRunOp(workers_->cpu(), piece, /*is_alone=*/true);
  std::atomic<int> running{kThreads};
  RunTogether(kThreads + 1, [&](int thread) {
    if (thread < kThreads) {
      RunSteps(thread == 0 ? alone.get() : kernel.get(), thread);
      running.fetch_sub(1);
      return;
    }
    for (int turn = 0; running.load() > 0; ++turn) {
      const int before = done_.load();
      while (running.load() > 0 && done_.load() < before + 7) std::this_thread::yield();
      service_->ReleaseEnded();
      service_->DropStep(turn);
      if (turn % 2 == 0) service_->Release("session");
    }
  });
  EXPECT_GT(done_.load(), kRounds);
}

TEST(StarThreads, ValuesAreKeptTakenAndDroppedAtTheSameTime) {
  StepStore store;
  std::atomic<int> taken{0};
  RunTogether(4, [&store, &taken](int thread) {
    for (int round = 0; round < 300; ++round) {
      const int64_t step = round;
      std::vector<KeptValue> values(1);
      values[0].number = static_cast<uint32_t>(thread);
      values[0].takers = 1;
      values[0].tensor = Ramp(2, static_cast<float>(thread));
      store.Keep(step, "session", std::move(values));
      std::vector<Tensor> args(1);
      if (store.Take(step, {static_cast<uint32_t>((thread + round) % 4)}, 0, &args).ok()) taken.fetch_add(1);
      if (round % 16 == 0) store.Drop(step);
      if (round % 64 == 0) store.DropSession("session");
    }
  });
  EXPECT_GT(taken.load(), 0);
  store.DropSession("session");
  EXPECT_EQ(store.steps(), 0u);
}

}  // namespace
}  // namespace fusewire::tf
