// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/provide/provider.h"

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <absl/strings/str_cat.h>
#include <tensorflow/core/distributed_runtime/call_options.h>
#include <tensorflow/core/distributed_runtime/rendezvous_mgr_interface.h>
#include <tensorflow/core/framework/collective.h>
#include "fusewire/tf/peer/fused.h"
#include "fusewire/tf/peer/marks.h"
#include "fusewire/tf/peer/recorded_test.h"
#include "fusewire/tf/peer/world_test.h"
#include "fusewire/tf/provide/producers_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

using tensorflow::Tensor;

// A source of tensors, and what it is asked to do.
class SourceTest : public testing::Test {
 protected:
  SourceTest() {
    env_.rendezvous_mgr = &producers_;
    source_.env = &env_;
    source_.find = [this](const tensorflow::Rendezvous::ParsedKey& key, tensorflow::Device** device) {
      if (key.edge_name == unknown_) return TfStatus(absl::NotFoundError("no such device"));
      *device = WorkersCpu();
      return TfStatus();
    };
    source_.abort_step = [this](int64_t step) { aborted_.push_back(step); };
  }

  tensorflow::WorkerEnv env_;
  Producers producers_;
  Provider::Source source_;
  std::string unknown_;
  std::vector<int64_t> aborted_;
};

class ProviderTest : public SourceTest {
 protected:
  // So many receives of the worker, whose question a Provider answers.
  void Receive(size_t count) {
    endings_ = std::vector<Ending>(count);
    {
      RecvGroup together;
      for (size_t i = 0; i < count; ++i) (new ProbeRecv(channel_, Edge(i), &endings_[i]))->Go();
    }
    ASSERT_TRUE(world_.AwaitAsked(1));
    std::vector<Want> wants;
    TfStatus error;
    ASSERT_TRUE(library_.Read(world_.asked[0].head, &wants, &error));
    ASSERT_TRUE(error.ok()) << error;
    ASSERT_EQ(wants.size(), count);
    world_.ps_home->Run(
        [this, &wants] { Provider::Start(source_, std::move(wants), std::move(world_.asked[0].reply)); });
  }
  static std::string Edge(size_t index) { return absl::StrCat("edge_", index); }
  bool Await(size_t index) {
    return world_.RunUntil([this, index] { return endings_[index].ends > 0; });
  }
  bool AwaitAll() {
    return world_.RunUntil([this] {
      for (const Ending& ending : endings_) {
        if (ending.ends == 0) return false;
      }
      return true;
    });
  }

  DataWorld world_;
  ChannelPtr channel_ = world_.MakeChannel();
  KeyLibrary library_;
  std::vector<Ending> endings_;
};

TEST_F(ProviderTest, ReadyTensorsGoInOneMessage) {
  for (size_t i = 0; i < 3; ++i) producers_.Have(Edge(i), Ramp(1000, static_cast<float>(i)));
  const uint64_t before = GlobalCounters().parts_out.load();
  Receive(3);
  EXPECT_EQ(GlobalCounters().parts_out.load() - before, 1u);
  ASSERT_TRUE(AwaitAll());
  for (size_t i = 0; i < 3; ++i) ExpectRamp(endings_[i], 1000, static_cast<float>(i));
  EXPECT_TRUE(aborted_.empty());
}

// The worker computes with the first while the last are on their way.
TEST_F(ProviderTest, LargeTensorsGoInSeveralMessages) {
  for (size_t i = 0; i < 8; ++i) producers_.Have(Edge(i), Ramp(65536, static_cast<float>(i)));
  const uint64_t before = GlobalCounters().parts_out.load();
  Receive(8);
  EXPECT_EQ(GlobalCounters().parts_out.load() - before, 4u);
  ASSERT_TRUE(AwaitAll());
  for (size_t i = 0; i < 8; ++i) ExpectRamp(endings_[i], 65536, static_cast<float>(i));
}

TEST_F(ProviderTest, EachGoesAsSoonAsItIsProduced) {
  producers_.Have(Edge(1), Ramp(2, 1));
  Receive(4);
  ASSERT_TRUE(Await(1));
  EXPECT_EQ(producers_.awaited().size(), 3u);
  producers_.Produce(Edge(3), Ramp(100'000, 3));
  ASSERT_TRUE(Await(3));
  ExpectRamp(endings_[3], 100'000, 3);
  EXPECT_EQ(endings_[0].ends + endings_[2].ends, 0);
  // Two at once, on a thread of TensorFlow's.
  std::thread([this] {
    producers_.Produce(Edge(0), Tensor(), /*is_dead=*/true);
    producers_.Produce(Edge(2), Ramp(1, 2));
  }).join();
  ASSERT_TRUE(AwaitAll());
  EXPECT_TRUE(endings_[0].is_dead);
  ExpectRamp(endings_[2], 1, 2);
}

TEST_F(ProviderTest, EachIsRecordedUntilItIsSent) {
  Recorded recorded;
  producers_.Have(Edge(1), Ramp(2, 1));
  Receive(2);
  ASSERT_TRUE(Await(1));
  // The receiver's end is in the same process.
  const auto count = [&recorded](const std::string& words, bool is_open) {
    size_t found = 0;
    for (const Recorded::One& one : recorded.Read()) found += one.words == words && one.seen.is_open == is_open ? 1 : 0;
    return found;
  };
  EXPECT_EQ(count("provide ps:0 worker:0 edge_0", true), 1u);
  EXPECT_EQ(count("provide ps:0 worker:0 edge_1", false), 1u);
  EXPECT_EQ(count("receive worker:0 ps:0 edge_0", true), 1u);
  producers_.Fail(Edge(0), absl::ResourceExhaustedError("no memory"));
  ASSERT_TRUE(AwaitAll());
  EXPECT_EQ(recorded.open(), 0u);
  for (const Recorded::One& one : recorded.Read()) {
    const bool failed = one.words.find("edge_0") != std::string::npos;
    EXPECT_EQ(one.seen.end, failed ? observe::End::kFailed : observe::End::kOk) << one.words;
    EXPECT_EQ(one.seen.bytes, failed ? 0u : 8u) << one.words;
  }
}

TEST_F(ProviderTest, AnErrorIsThatOfItsTensorAlone) {
  unknown_ = Edge(0);
  Receive(3);
  ASSERT_TRUE(Await(0));
  EXPECT_TRUE(absl::IsNotFound(endings_[0].status)) << endings_[0].status;
  producers_.Fail(Edge(1), absl::ResourceExhaustedError("no memory"));
  producers_.Produce(Edge(2), Ramp(3, 2));
  ASSERT_TRUE(AwaitAll());
  EXPECT_TRUE(absl::IsResourceExhausted(endings_[1].status)) << endings_[1].status;
  ExpectRamp(endings_[2], 3, 2);
}

TEST_F(ProviderTest, MoreThanAMessageHoldsGoesInSeveral) {
  constexpr size_t kMany = 2500;  // each in a segment of its own
  for (size_t i = 0; i < kMany; ++i) producers_.Have(Edge(i), Ramp(300, static_cast<float>(i)));
  // A question has 512 at the most.
  endings_ = std::vector<Ending>(kMany);
  std::vector<Want> wants;
  for (size_t i = 0; i < kMany; ++i) {
    auto key = std::make_shared<tensorflow::Rendezvous::ParsedKey>();
    ASSERT_TRUE(tensorflow::Rendezvous::ParseKey(KeyOf(Edge(i)), key.get()).ok());
    wants.push_back(Want{kStep, std::move(key)});
  }
  class Counting final : public rpc::Call {
   public:
    Counting() : Call(kReceive) {}
    size_t segments = 0, messages = 0;
    bool ended = false;
    Status status;

   private:
    void OnPart(ConstBytes, Buffers part) override { Count(part); }
    void OnDone(Status done) override {
      Count(reply_body);
      status = std::move(done);
      ended = true;
    }
    void Count(const Buffers& come) {
      ++messages;
      segments += come.size();
    }
  } call;
  channel_->client().Start(&call);
  ASSERT_TRUE(world_.AwaitAsked(1));
  world_.ps_home->Run([&] { Provider::Start(source_, std::move(wants), std::move(world_.asked[0].reply)); });
  ASSERT_TRUE(world_.RunUntil([&] { return call.ended; }));
  EXPECT_TRUE(call.status.ok()) << call.status.ToString();
  EXPECT_EQ(call.segments, kMany);
  EXPECT_GE(call.messages, 3u);
}

TEST_F(ProviderTest, NothingIsAnsweredWithNothing) {
  rpc::SimpleCall call(kReceive, [this](Status status) {
    EXPECT_TRUE(status.ok()) << status.ToString();
    aborted_.push_back(-1);
  });
  channel_->client().Start(&call);
  ASSERT_TRUE(world_.AwaitAsked(1));
  world_.ps_home->Run([this] { Provider::Start(source_, {}, std::move(world_.asked[0].reply)); });
  ASSERT_TRUE(world_.RunUntil([this] { return !aborted_.empty(); }));
}

TEST_F(ProviderTest, StepsOfALostRequesterAreAborted) {
  producers_.Have(Edge(0), Ramp(1, 0));
  Receive(3);
  ASSERT_TRUE(Await(0));
  world_.world.Cut("worker", "ps");
  ASSERT_TRUE(AwaitAll());
  ASSERT_TRUE(world_.RunUntil([this] { return !aborted_.empty(); }));
  EXPECT_EQ(aborted_, std::vector<int64_t>{kStep});  // once, for two tensors
  for (size_t i : {1, 2}) EXPECT_TRUE(absl::IsUnavailable(endings_[i].status)) << endings_[i].status;
  // The producers are aborted, and end; the tensor of the last one is dropped.
  producers_.Fail(Edge(1), absl::AbortedError("the step was aborted"));
  producers_.Produce(Edge(2), Ramp(10'000, 1));
  world_.world.RunFor(kSecondNs);
  EXPECT_EQ(endings_[2].ends, 1);
  EXPECT_EQ(aborted_.size(), 1u);
}

TEST_F(ProviderTest, AStepThatHasBeenAnsweredIsNotAborted) {
  producers_.Have(Edge(0), Ramp(1, 0));
  Receive(1);
  ASSERT_TRUE(AwaitAll());
  world_.world.Cut("worker", "ps");
  world_.world.RunFor(kSecondNs);
  EXPECT_TRUE(aborted_.empty());
}

TEST_F(ProviderTest, FetchesOfAnUnknownDeviceEndAtOnce) {
  unknown_ = "edge";
  tensorflow::Rendezvous::ParsedKey key;
  ASSERT_TRUE(tensorflow::Rendezvous::ParseKey(KeyOf("edge"), &key).ok());
  int ends = 0;
  FetchToHost(source_, kStep, key, [&ends](const TfStatus& status, const Tensor&, bool) {
    EXPECT_TRUE(absl::IsNotFound(status));
    ++ends;
  });
  EXPECT_EQ(ends, 1);
}

class FusedProviderTest : public SourceTest {
 protected:
  void Start(const std::vector<std::string>& edges) {
    ParsedKeys keys(edges.size());
    for (size_t i = 0; i < edges.size(); ++i)
      ASSERT_TRUE(tensorflow::Rendezvous::ParseKey(KeyOf(edges[i]), &keys[i]).ok());
    FusedProvider::Start(source_, &options_, kStep, std::move(keys),
                         [this](const TfStatus& status, const Tensor& made) {
                           status_ = status;
                           answer_ = made;
                           ++ends_;
                         });
  }
  // The caller's reading of the answer.
  std::vector<Ending> Decoded(size_t count) {
    std::vector<Ending> endings(count);
    TensorPlace place;
    place.device = WorkersCpu();
    DecodeFused(answer_, std::vector<TensorPlace>(count, place),
                [&endings](size_t i, const TfStatus& status, FusedKind kind, const Tensor& tensor) {
                  endings[i].status = status;
                  endings[i].tensor = tensor;
                  endings[i].is_dead = kind == FusedKind::kDead;
                  ++endings[i].ends;
                });
    return endings;
  }

  tensorflow::CallOptions options_;
  int ends_ = 0;
  TfStatus status_;
  Tensor answer_;
};

TEST_F(FusedProviderTest, AnswersOnceAllAreThere) {
  producers_.Have("first", Ramp(3, 1));
  Start({"first", "second", "third"});
  producers_.Produce("third", Tensor(), /*is_dead=*/true);
  EXPECT_EQ(ends_, 0);
  producers_.Produce("second", Ramp(10'000, 7));
  ASSERT_EQ(ends_, 1);
  ASSERT_TRUE(status_.ok()) << status_;
  std::vector<Ending> endings = Decoded(3);
  ExpectRamp(endings[0], 3, 1);
  ExpectRamp(endings[1], 10'000, 7);
  EXPECT_TRUE(endings[2].is_dead);
  EXPECT_TRUE(aborted_.empty());
}

TEST_F(FusedProviderTest, TheFirstFailureEndsItAtOnceAndOnce) {
  Start({"first", "second"});
  producers_.Fail("second", absl::OutOfRangeError("the queue is closed"));
  ASSERT_EQ(ends_, 1);
  EXPECT_TRUE(absl::IsOutOfRange(status_)) << status_;
  producers_.Fail("first", absl::InternalError("another one"));
  EXPECT_EQ(ends_, 1);
}

TEST_F(FusedProviderTest, AKeyOfAForeignDeviceEndsIt) {
  unknown_ = "second";
  Start({"first", "second"});
  ASSERT_EQ(ends_, 1);
  EXPECT_TRUE(absl::IsNotFound(status_)) << status_;
  producers_.Produce("first", Ramp(1, 1));
  EXPECT_EQ(ends_, 1);
}

TEST_F(FusedProviderTest, ACancelAbortsTheStepWhichEndsIt) {
  Start({"first", "second"});
  options_.StartCancel();
  EXPECT_EQ(aborted_, std::vector<int64_t>{kStep});
  EXPECT_EQ(ends_, 0);
  for (const std::string& edge : producers_.awaited()) producers_.Fail(edge, absl::AbortedError("the step"));
  EXPECT_EQ(ends_, 1);
  EXPECT_TRUE(absl::IsAborted(status_)) << status_;
}

}  // namespace
}  // namespace fusewire::tf
