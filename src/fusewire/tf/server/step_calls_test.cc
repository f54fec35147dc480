// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/peer/wire_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include <absl/status/status.h>

namespace fusewire::tf {
namespace {

using testing::ElementsAre;

// A master's run of a step, as TensorFlow has it: when a call fails, the others are cancelled, once.
class RunOfAStep {
 public:
  explicit RunOfAStep(int64_t step) : step_(step) {}
  ~RunOfAStep() {
    for (const auto& call : calls_) call->options.ClearCancelCallback();
  }

  void Start() {
    Call* call = calls_.emplace_back(std::make_unique<Call>()).get();
    auto start = [call](tensorflow::StatusCallback done) {
      call->done = std::move(done);
      call->options.SetCancelCallback([call] { ++call->cancels; });
    };
    if (calls_.size() == 1) {
      Start(call, [start](tensorflow::StatusCallback done) { start(std::move(done)); });  // the master's own worker
    } else {
      Start(call, start);
    }
  }
  void End(size_t index, const TfStatus& status) { calls_[index]->done(status); }
  // As a worker ends a call that has failed there.
  void EndByResponse(size_t index, const TfStatus& error) {
    calls_[index]->response.set_status(error);
    calls_[index]->done(TfStatus());
  }
  // The step's error, as TensorFlow makes it of those of all calls.
  TfStatus status() const { return all_.as_concatenated_status(); }
  std::vector<int> cancels() const {
    std::vector<int> counts;
    for (const auto& call : calls_) counts.push_back(call->cancels);
    return counts;
  }

 private:
  struct Call {
    tensorflow::CallOptions options;
    tensorflow::InMemoryRunGraphResponse response;
    tensorflow::StatusCallback done;
    int cancels = 0;
  };

  template <class F>
  void Start(Call* call, F start) {
    auto done = [this, call](const TfStatus& status) {
      const TfStatus error = status.ok() ? call->response.status() : status;
      all_.Update(error);
      if (error.ok() || std::exchange(has_failed_, true)) return;
      for (const auto& other : calls_) other->options.StartCancel();
    };
    StepCalls::Start(step_, &call->options, &call->response, done, start);
  }

  const int64_t step_;
  std::vector<std::unique_ptr<Call>> calls_;
  bool has_failed_ = false;
  tensorflow::StatusGroup all_;
};

TEST(StepCallsTest, ACallStartedAfterAFailureIsCancelled) {
  RunOfAStep run(71);
  run.Start();
  run.Start();
  run.End(0, absl::FailedPreconditionError("uninitialized"));
  run.Start();
  EXPECT_THAT(run.cancels(), ElementsAre(1, 1, 1));
}

TEST(StepCallsTest, NothingIsCancelledWithoutAFailure) {
  RunOfAStep run(72);
  run.Start();
  run.End(0, TfStatus());
  run.Start();
  EXPECT_THAT(run.cancels(), ElementsAre(0, 0));
}

TEST(StepCallsTest, TheErrorOfAStepIsNotThatOfACallWhichItCancelled) {
  for (const TfStatus& why : {TfStatus(absl::UnavailableError("lost")), TfStatus(absl::AbortedError("restarted")),
                              TfStatus(absl::InvalidArgumentError("wrong"))}) {
    RunOfAStep run(75);
    for (int i = 0; i < 4; ++i) run.Start();
    run.End(0, why);
    for (size_t i = 1; i < 4; ++i) run.End(i, absl::CancelledError("the caller cancelled it"));
    EXPECT_EQ(run.status().code(), why.code()) << run.status();

    RunOfAStep other(77);
    for (int i = 0; i < 4; ++i) other.Start();
    other.EndByResponse(0, why);
    other.Start();
    for (size_t i = 1; i < 5; ++i) other.End(i, absl::CancelledError("the caller cancelled it"));
    EXPECT_EQ(other.status().code(), why.code()) << other.status();
    EXPECT_THAT(other.cancels(), ElementsAre(1, 1, 1, 1, 1));

    RunOfAStep third(78);
    for (int i = 0; i < 4; ++i) third.Start();
    third.End(0, why);
    for (size_t i = 1; i < 4; ++i) third.EndByResponse(i, absl::CancelledError("its receive was cancelled"));
    EXPECT_EQ(third.status().code(), why.code()) << third.status();
  }
}

TEST(StepCallsTest, AStepThatItsCallerCancelsIsCancelled) {
  RunOfAStep run(76);
  for (int i = 0; i < 2; ++i) run.Start();
  for (size_t i = 0; i < 2; ++i) run.End(i, absl::CancelledError("the caller cancelled it"));
  EXPECT_TRUE(absl::IsCancelled(run.status())) << run.status();
}

TEST(StepCallsTest, AStepKnowsNothingOfTheLastOne) {
  RunOfAStep failed(73), next(74);
  failed.Start();
  failed.End(0, absl::AbortedError("gone"));
  next.Start();
  EXPECT_THAT(next.cancels(), ElementsAre(0));
}

}  // namespace
}  // namespace fusewire::tf
