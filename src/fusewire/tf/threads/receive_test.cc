// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Many threads, real reactors, real sockets: steps that receive, are aborted and end, while their peer comes and goes.
// For ThreadSanitizer: tools/test.sh tf-tsan.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fusewire/tf/bridge/threads_test.h"
#include "fusewire/tf/provide/producers_test.h"
#include "fusewire/tf/provide/provider.h"
#include "fusewire/tf/receive/step_test.h"

#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>
#include <tensorflow/core/distributed_runtime/rendezvous_mgr_interface.h>

namespace fusewire::tf {
namespace {

using tensorflow::Tensor;

// A parameter server, as far as it sends tensors.
class Site {
 public:
  Site() : task_(StartTask("ps")) {
    env_.rendezvous_mgr = &steps_;
    source_.env = &env_;
    source_.find = [](const tensorflow::Rendezvous::ParsedKey&, tensorflow::Device** device) {
      *device = WorkersCpu();
      return TfStatus();
    };
    source_.abort_step = [this](int64_t) { aborted_.fetch_add(1); };
    Open();
  }
  ~Site() {
    server_.reset();
    EXPECT_TRUE(threads_.AwaitIdle());
  }

  uint16_t port() const { return port_.load(); }
  // As when it is started again; at another port.
  void Reopen() {
    server_.reset();
    Open();
  }

 private:
  void Open() {
    std::vector<rpc::Method> methods(3);
    methods[0].number = kReceive;
    methods[0].handle = [this](rpc::Request request, rpc::Reply reply) {
      std::vector<Want> wants;
      TfStatus error;
      if (!library_.Read(request.head, &wants, &error)) {
        reply.Send(Status::Application(kUnknownKeys, "an unknown key number"));
      } else {
        Provider::Start(source_, std::move(wants), std::move(reply));
      }
    };
    methods[1].number = kAbortStep;
    methods[2].number = kCleanupGraph;
    for (size_t i : {1, 2}) methods[i].handle = [](rpc::Request, rpc::Reply reply) { reply.Send(Status::Ok()); };
    for (rpc::Method& method : methods) method.name = "asked";
    auto opened = rpc::Server::Open(*task_, {"127.0.0.1", 0}, std::move(methods));
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    server_ = std::move(opened).value();
    port_.store(server_->address().port);
  }

  const std::unique_ptr<task::Task> task_;
  TestThreads threads_{2};
  // Each tensor is there at once, or comes from another thread.
  Producers steps_{[this](const std::string& edge, Producers::Done done) {
    auto produce = [done = std::move(done), is_large = edge.back() == '1'] {
      done(TfStatus(), Producers::Args(), Producers::Args(), Ramp(is_large ? 20'000 : 4, 3), false);
    };
    if (edge.back() == '0') {
      produce();
    } else {
      threads_.Schedule(produce);
    }
  }};
  tensorflow::WorkerEnv env_;
  Provider::Source source_;
  KeyLibrary library_;
  std::atomic<int> aborted_{0};
  std::atomic<uint16_t> port_{0};
  std::unique_ptr<rpc::Server> server_;
};

// Says its data port from another thread.
class PromptWorker final : public FakeWorker {
 public:
  PromptWorker(const Site* site, TestThreads* threads) : site_(site), threads_(threads) {}

 private:
  void LoggingAsync(const tensorflow::LoggingRequest*, tensorflow::LoggingResponse* response,
                    tensorflow::StatusCallback done) override {
    threads_->Schedule([this, response, done = std::move(done)] {
      PortWords words;
      words.port = site_->port();
      words.Answer(response);
      done(TfStatus());
    });
  }
  const Site* const site_;
  TestThreads* const threads_;
};

class DataThreadsTest : public testing::Test {
 protected:
  static constexpr int kThreads = 3, kRounds = 30, kReceives = 5;

  // A step of so many receives; some are aborted or cancelled in the middle, by another thread. How many arrived.
  int RunStep(int64_t number, int turn) {
    Step step(&task_, number, turn % 2 == 0 ? "graph" : "");
    tensorflow::CancellationManager cancellation;
    std::vector<Ending> endings(kReceives);
    Ends ends, stops;
    const int stop_at = turn % (2 * kReceives);  // if there are so many
    for (int i = 0; i < kReceives; ++i) {
      Receive(&step, i, &cancellation, &endings[static_cast<size_t>(i)], &ends);
      if (i != stop_at) continue;
      stoppers_.Schedule([&step, &cancellation, &stops, turn] {
        if (turn % 3 == 0) cancellation.StartCancel();
        if (turn % 3 == 1) step->StartAbort(absl::AbortedError("the reason"));
        stops.Add();
      });
    }
    EXPECT_TRUE(ends.Await(kReceives));
    EXPECT_TRUE(stop_at >= kReceives || stops.Await(1));
    return Arrived(endings);
  }
  static void Receive(Step* step, int index, tensorflow::CancellationManager* cancellation, Ending* ending,
                      Ends* ends) {
    tensorflow::Rendezvous::ParsedKey key;
    EXPECT_TRUE(tensorflow::Rendezvous::ParseKey(KeyOf(absl::StrCat("edge_", index)), &key).ok());
    tensorflow::Rendezvous::Args args;
    args.cancellation_manager = cancellation;
    (*step)->RecvAsync(key, args,
                       [end = Step::EndOf(ending), ends](const TfStatus& status, const auto& send, const auto& receive,
                                                         const Tensor& tensor, bool is_dead) {
                         end(status, send, receive, tensor, is_dead);
                         ends->Add();
                       });
  }
  static int Arrived(const std::vector<Ending>& endings) {
    int arrived = 0;
    for (size_t i = 0; i < endings.size(); ++i) {
      EXPECT_EQ(endings[i].ends, 1);
      if (!endings[i].status.ok()) continue;
      ++arrived;
      ExpectRamp(endings[i], i == 1 ? 20'000 : 4, 3);
    }
    return arrived;
  }
  void RunSteps(int thread) {
    for (int round = 0; round < kRounds; ++round) {
      const int64_t number = thread * 1000 + round + 1;
      arrived_.fetch_add(RunStep(number, thread + round));
      task_.manager->Cleanup(number);
    }
  }

  Site site_;
  TestThreads sayers_{1};
  StepTask task_{WorkersTask(), "127.0.0.1:2222", std::make_unique<PromptWorker>(&site_, &sayers_),
                 /*patience_ns=*/50 * kMillisecondNs};
  TestThreads stoppers_{2};
  std::atomic<int> arrived_{0};
};

TEST_F(DataThreadsTest, StepsReceiveAndAreAbortedAtTheSameTime) {
  RunTogether(kThreads, [this](int thread) { RunSteps(thread); });
  EXPECT_GT(arrived_.load(), kThreads * kRounds);
}

TEST_F(DataThreadsTest, APeerComesAndGoesMeanwhile) {
  RunTogether(kThreads + 1, [this](int thread) {
    if (thread < kThreads) {
      RunSteps(thread);
    } else {
      for (int turn = 0; turn < 5; ++turn) {
        const int before = arrived_.load();
        const int64_t deadline_ns = AddNs(Clock::Real()->NowNs(), kSecondNs);
        while (arrived_.load() == before && Clock::Real()->NowNs() < deadline_ns) std::this_thread::yield();
        site_.Reopen();
      }
    }
  });
  EXPECT_GT(arrived_.load(), 0);
}

}  // namespace
}  // namespace fusewire::tf
