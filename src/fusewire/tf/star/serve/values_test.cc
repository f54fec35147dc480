// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/serve/values.h"

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <tensorflow/core/common_runtime/device_factory.h>
#include <tensorflow/core/common_runtime/device_mgr.h>
#include <tensorflow/core/public/session_options.h>
#include "fusewire/base/random.h"
#include "fusewire/tf/heads/calls.h"

#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

using tensorflow::Tensor;
using tensorflow::TensorShape;

tensorflow::WorkerEnv* Env() {
  static tensorflow::WorkerEnv* env = [] {
    static tensorflow::StaticDeviceMgr devices(
        tensorflow::DeviceFactory::NewDevice("CPU", tensorflow::SessionOptions(), "/job:ps/replica:0/task:0"));
    static tensorflow::WorkerEnv made;
    made.device_mgr = &devices;
    return &made;
  }();
  return env;
}

Tensor Filled(float value) {
  Tensor tensor(tensorflow::DT_FLOAT, TensorShape({3}));
  tensor.flat<float>().setConstant(value);
  return tensor;
}

// Values 0 and 1 of step 7, to be taken once and twice.
std::string TwoValues() {
  std::string head;
  Buffers body;
  AppendText(&head, std::string("session"));
  AppendFixed64(&head, 7);
  for (uint64_t number = 0; number < 2; ++number) {
    AppendVarint(&head, number);
    AppendVarint(&head, number + 1);
    EXPECT_TRUE(AppendTensor(Filled(static_cast<float>(number)), &head, &body).ok());
  }
  EXPECT_TRUE(body.empty());
  return head;
}

TEST(IncomingValues, AreTakenAsOftenAsDeclared) {
  StepStore store;
  {
    IncomingValues values;
    ASSERT_TRUE(values.Read(Env(), ConstBytes(TwoValues()), nullptr).ok());
    ASSERT_TRUE(values.Store(&store).ok());
  }
  std::vector<Tensor> args(3);
  ASSERT_TRUE(store.Take(7, {1, 0}, 1, &args).ok());
  EXPECT_EQ(args[1].flat<float>()(2), 1.0f);
  EXPECT_EQ(args[2].flat<float>()(2), 0.0f);
  EXPECT_FALSE(store.Take(7, {0}, 0, &args).ok());
  ASSERT_TRUE(store.Take(7, {1}, 0, &args).ok());
  EXPECT_EQ(store.steps(), 0u);
}

TEST(IncomingValues, WithoutASenseAreRefused) {
  std::string head = TwoValues();
  for (size_t size = 0; size < head.size(); ++size) {
    // A message that ends between two values has fewer of them.
    StepStore store;
    IncomingValues values;
    if (values.Read(Env(), ConstBytes(head.data(), size), nullptr).ok()) {
      EXPECT_TRUE(values.Store(&store).ok());
      EXPECT_LE(store.steps(), 1u);
    }
  }
  std::string far;
  AppendText(&far, std::string("session"));
  AppendFixed64(&far, 7);
  AppendVarint(&far, kKeptNumbersMax);
  AppendVarint(&far, 1);
  IncomingValues values;
  EXPECT_EQ(values.Read(Env(), ConstBytes(far), nullptr).code(), Code::kInvalid);
}

TEST(IncomingValues, NeverCrashWhateverTheBytes) {
  const std::string seed = TwoValues();
  Random random(20261122);
  int stored = 0;
  for (int round = 0; round < 50000; ++round) {
    std::string head = seed;
    for (uint64_t mutations = random.Next() % 4; mutations > 0; --mutations)
      head[random.Next() % head.size()] = static_cast<char>(random.Next());
    head.resize(random.Next() % (head.size() + 1));
    StepStore store;
    IncomingValues values;
    if (!values.Read(Env(), ConstBytes(head), nullptr).ok()) continue;
    if (values.Store(&store).ok()) ++stored;
    store.DropSession("session");
  }
  EXPECT_GT(stored, 0);
}

// Numbers are the peer's to choose: those that it leaves out cost nothing.
TEST(StepStore, TakesNoMemoryForUnusedNumbers) {
  StepStore store;
  for (int64_t step = 0; step < 4000; ++step) {
    std::vector<KeptValue> values(1);
    values[0].number = kKeptNumbersMax - 1;
    values[0].takers = 1;
    values[0].tensor = Filled(1);
    store.Keep(step, "session", std::move(values));  // 56 MiB for each step, were they a list
  }
  std::vector<Tensor> args(1);
  EXPECT_TRUE(store.Take(3999, {kKeptNumbersMax - 1}, 0, &args).ok());
  EXPECT_EQ(store.steps(), 3999u);
}

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

TEST(StepStore, FillsArgumentsFromTheGivenIndex) {
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

TEST(StepStore, AMissingValueSaysThatTheServerWasProbablyRestarted) {
  StepStore store;
  Keep(&store, kStepOfAll, Kept(1, 1, 1));
  std::vector<Tensor> args(2);
  for (const auto& [step, number] : {std::pair<int64_t, uint32_t>{kStepOfAll, 2}, {kStepOfAll + 1, 1}}) {
    TfStatus taken = store.Take(step, {number}, 0, &args);
    EXPECT_TRUE(absl::IsAborted(taken)) << taken;  // which sessions recover from
  }
  EXPECT_EQ(TakeOne(&store, kStepOfAll, 1), 1);
}

TEST(StepStore, AnUntakenValueDoesNotKeepAStep) {
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

TEST(StepStore, ValuesThatAllHaveTakenLeaveNothing) {
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
