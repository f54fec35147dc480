// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/serve/values.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <tensorflow/core/common_runtime/device_factory.h>
#include <tensorflow/core/common_runtime/device_mgr.h>
#include <tensorflow/core/public/session_options.h>
#include "fusewire/base/random.h"
#include "fusewire/tf/heads/calls.h"

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

TEST(IncomingValues, AreTakenAsOftenAsWasSaid) {
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
    for (uint64_t bends = random.Next() % 4; bends > 0; --bends)
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
TEST(StepStore, TakesNoMemoryForNumbersThatNobodyUses) {
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

}  // namespace
}  // namespace fusewire::tf
