// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/provide/fused_provider.h"

#include <string>
#include <utility>
#include <vector>

#include "fusewire/tf/peer/fused.h"
#include "fusewire/tf/provide/producers_test.h"

#include <gtest/gtest.h>
#include <tensorflow/core/distributed_runtime/call_options.h>

namespace fusewire::tf {
namespace {

using tensorflow::Tensor;

class FusedProviderTest : public testing::Test {
 protected:
  FusedProviderTest() {
    env_.rendezvous_mgr = &producers_;
    source_.env = &env_;
    source_.find = [this](const tensorflow::Rendezvous::ParsedKey& key, tensorflow::Device** device) {
      if (key.edge_name == unknown_) return TfStatus(absl::NotFoundError("no such device"));
      *device = WorkersCpu();
      return TfStatus();
    };
    source_.abort_step = [this](int64_t step) { aborted_.push_back(step); };
  }
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

  Producers producers_;
  tensorflow::WorkerEnv env_;
  Provider::Source source_;
  tensorflow::CallOptions options_;
  std::string unknown_;
  std::vector<int64_t> aborted_;
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

TEST_F(FusedProviderTest, AKeyOfADeviceThatIsNotHereEndsIt) {
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
