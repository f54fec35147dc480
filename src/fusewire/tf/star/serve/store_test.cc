// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/serve/store.h"

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

using tensorflow::Tensor;

constexpr int64_t kStepOfAll = 9;

Tensor Scalar(float value) {
  Tensor tensor(tensorflow::DT_FLOAT, tensorflow::TensorShape({}));
  tensor.scalar<float>()() = value;
  return tensor;
}

KeptValue Kept(uint32_t number, uint32_t takers, float value) {
  KeptValue kept;
  kept.number = number;
  kept.takers = takers;
  kept.tensor = Scalar(value);
  return kept;
}

void Keep(StepStore* store, int64_t step, KeptValue value, const std::string& session = "session") {
  std::vector<KeptValue> values;
  values.push_back(std::move(value));
  store->Keep(step, session, std::move(values));
}

// The value, or -1.
float TakeOne(StepStore* store, int64_t step, uint32_t number) {
  std::vector<Tensor> args(1);
  return store->Take(step, {number}, 0, &args).ok() ? args[0].scalar<float>()() : -1;
}

TEST(StepStore, GivesEachValueAsOftenAsItIsToBeTaken) {
  StepStore store;
  Keep(&store, kStepOfAll, Kept(0, 1, 10));
  Keep(&store, kStepOfAll, Kept(3, 2, 30));
  EXPECT_EQ(store.steps(), 1u);
  EXPECT_EQ(TakeOne(&store, kStepOfAll, 3), 30);
  EXPECT_EQ(TakeOne(&store, kStepOfAll, 0), 10);
  EXPECT_EQ(TakeOne(&store, kStepOfAll, 0), -1);
  EXPECT_EQ(TakeOne(&store, kStepOfAll, 3), 30);
  EXPECT_EQ(store.steps(), 0u);  // nothing is left, and nothing stays
  EXPECT_EQ(TakeOne(&store, kStepOfAll, 3), -1);
}

TEST(StepStore, FillsArgumentsFromThePlaceThatIsSaid) {
  StepStore store;
  Keep(&store, kStepOfAll, Kept(1, 1, 1));
  Keep(&store, kStepOfAll, Kept(2, 1, 2));
  std::vector<Tensor> args(4);
  ASSERT_TRUE(store.Take(kStepOfAll, {2, 1}, 1, &args).ok());
  EXPECT_EQ(args[0].NumElements(), 0);
  EXPECT_EQ(args[1].scalar<float>()(), 2);
  EXPECT_EQ(args[2].scalar<float>()(), 1);
  EXPECT_EQ(args[3].NumElements(), 0);
  ASSERT_TRUE(store.Take(kStepOfAll, {}, 0, &args).ok());  // a part that takes nothing
}

TEST(StepStore, WhatIsNotThereSaysThatTheServerWasProbablyRestarted) {
  StepStore store;
  Keep(&store, kStepOfAll, Kept(1, 1, 1));
  std::vector<Tensor> args(2);
  for (const auto& [step, number] : {std::pair<int64_t, uint32_t>{kStepOfAll, 2}, {kStepOfAll + 1, 1}}) {
    TfStatus taken = store.Take(step, {number}, 0, &args);
    EXPECT_TRUE(absl::IsAborted(taken)) << taken;  // which sessions recover from
  }
  EXPECT_EQ(TakeOne(&store, kStepOfAll, 1), 1);
}

TEST(StepStore, AValueThatNobodyTakesIsNoReasonToStay) {
  StepStore store;
  Keep(&store, kStepOfAll, Kept(1, 1, 1));
  Keep(&store, kStepOfAll, Kept(2, 0, 2));
  EXPECT_EQ(TakeOne(&store, kStepOfAll, 2), -1);
  EXPECT_EQ(TakeOne(&store, kStepOfAll, 1), 1);
  EXPECT_EQ(store.steps(), 0u);
}

TEST(StepStore, AValueThatIsKeptTwiceIsCountedOnce) {
  StepStore store;
  Keep(&store, kStepOfAll, Kept(1, 1, 1));
  Keep(&store, kStepOfAll, Kept(1, 1, 5));
  EXPECT_EQ(TakeOne(&store, kStepOfAll, 1), 5);
  EXPECT_EQ(store.steps(), 0u);
}

TEST(StepStore, WhatNobodyWillTakeAnyMoreLeavesNothing) {
  StepStore store;
  Keep(&store, kStepOfAll, Kept(1, 0, 1));
  EXPECT_EQ(store.steps(), 0u);
  Keep(&store, kStepOfAll, Kept(1, 3, 1));
  Keep(&store, kStepOfAll, Kept(1, 0, 1));
  EXPECT_EQ(store.steps(), 0u);
}

TEST(StepStore, ADroppedStepIsGoneAndOthersStay) {
  StepStore store;
  // Of one drawer: steps are spread over 32 of them.
  for (int64_t step : {1, 33, -31}) Keep(&store, step, Kept(1, 1, static_cast<float>(step)));
  store.Drop(33);
  store.Drop(33);
  store.Drop(65);
  EXPECT_EQ(store.steps(), 2u);
  EXPECT_EQ(TakeOne(&store, 33, 1), -1);
  EXPECT_EQ(TakeOne(&store, 1, 1), 1);
  EXPECT_EQ(TakeOne(&store, -31, 1), -31);
}

TEST(StepStore, AnEndedSessionTakesItsStepsAlong) {
  StepStore store;
  for (int64_t step = 0; step < 100; ++step) Keep(&store, step, Kept(1, 1, 1), step % 2 == 0 ? "ended" : "lives");
  store.DropSession("ended");
  EXPECT_EQ(store.steps(), 50u);
  EXPECT_EQ(TakeOne(&store, 2, 1), -1);
  EXPECT_EQ(TakeOne(&store, 3, 1), 1);
  store.DropSession("lives");
  EXPECT_EQ(store.steps(), 0u);
}

TEST(StepStore, ServesManyStepsAtOnce) {
  StepStore store;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&store, &wrong, thread] {
      for (int turn = 0; turn < 1000; ++turn) {
        // All threads meet in each drawer.
        const int64_t step = turn * 4 + thread;
        Keep(&store, step, Kept(7, 2, static_cast<float>(step)));
        if (TakeOne(&store, step, 7) != static_cast<float>(step)) ++wrong;
        if (turn % 3 == 0) store.Drop(step);
        if (turn % 3 == 0 ? TakeOne(&store, step, 7) != -1 : TakeOne(&store, step, 7) != static_cast<float>(step))
          ++wrong;
        if (turn % 100 == 0) store.DropSession("another");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(store.steps(), 0u);
}

}  // namespace
}  // namespace fusewire::tf
