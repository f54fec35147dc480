// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/peer/fused.h"

#include <string>
#include <vector>

#include "fusewire/base/random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tensorflow/core/common_runtime/device_factory.h>
#include <tensorflow/core/framework/variant.h>
#include <tensorflow/core/framework/variant_encode_decode.h>
#include <tensorflow/core/public/session_options.h>

namespace fusewire::tf {
namespace {

using tensorflow::Tensor;
using tensorflow::TensorShape;
using testing::ElementsAre;

struct Landed {
  TfStatus status = absl::UnknownError("nothing was said of it");
  FusedKind kind = FusedKind::kValue;
  Tensor tensor;
};

std::vector<Landed> Decode(const Tensor& answer, size_t count) {
  static tensorflow::Device* cpu =
      tensorflow::DeviceFactory::NewDevice("CPU", tensorflow::SessionOptions(), "/job:b/replica:0/task:0").release();
  TensorPlace place;
  place.device = cpu;
  std::vector<Landed> landed(count);
  DecodeFused(answer, std::vector<TensorPlace>(count, place),
              [&landed](size_t index, const TfStatus& status, FusedKind kind, const Tensor& tensor) {
                landed[index] = Landed{status, kind, tensor};
              });
  return landed;
}

Tensor Numbers(int64_t count, int32_t first) {
  Tensor tensor(tensorflow::DT_INT32, TensorShape({count}));
  for (int64_t i = 0; i < count; ++i) tensor.flat<int32_t>()(i) = first + static_cast<int32_t>(i);
  return tensor;
}

std::vector<FusedItem> SomeItems() {
  std::vector<FusedItem> items(6);
  items[0].tensor = Numbers(5000, 1);
  items[1].tensor = Tensor(3.5);
  items[2].tensor = Tensor(tensorflow::DT_STRING, TensorShape({2}));
  items[2].tensor.flat<tensorflow::tstring>()(1) = std::string(70000, 'a');
  items[3].kind = FusedKind::kDead;
  items[4].tensor = Tensor(tensorflow::DT_FLOAT, TensorShape({0, 4}));
  items[5].tensor = Tensor(tensorflow::DT_VARIANT, TensorShape({}));
  items[5].tensor.scalar<tensorflow::Variant>()() = Numbers(2000, 7);
  return items;
}

TEST(FusedQuestion, NamesAllKeys) {
  std::vector<std::string> texts;
  ParsedKeys keys(3);
  for (int i = 0; i < 3; ++i) {
    texts.push_back(tensorflow::Rendezvous::CreateKey("/job:ps/replica:0/task:0/device:CPU:0", 17,
                                                      "/job:worker/replica:0/task:0/device:CPU:0",
                                                      "edge_" + std::to_string(i), tensorflow::FrameAndIter(0, 0)));
    ASSERT_TRUE(tensorflow::Rendezvous::ParseKey(texts.back(), &keys[static_cast<size_t>(i)]).ok());
  }
  tensorflow::RecvTensorRequest request;
  EXPECT_FALSE(IsFused(request));
  AskFused(keys, &request);
  ASSERT_TRUE(IsFused(request));
  EXPECT_EQ(request.rendezvous_key(), texts[0]);
  ParsedKeys read;
  TfStatus status = ReadFused(request, &read);
  ASSERT_TRUE(status.ok()) << status;
  std::vector<std::string> seen;
  for (const auto& key : read) seen.emplace_back(key.FullKey().data(), key.FullKey().size());
  EXPECT_EQ(seen, texts);

  std::string value(request.transport_options().value());
  for (size_t size = 0; size < value.size(); ++size) {
    request.mutable_transport_options()->set_value(value.substr(0, size));
    EXPECT_FALSE(ReadFused(request, &read).ok()) << size;
  }
}

TEST(FusedAnswer, BringsEachTensorToItsPlace) {
  std::vector<FusedItem> items = SomeItems();
  Tensor answer;
  ASSERT_TRUE(EncodeFused(&items, kFusedBytesMax, &answer).ok());
  EXPECT_TRUE(IsFusedAnswer(answer));
  std::vector<Landed> landed = Decode(answer, items.size());
  for (const Landed& one : landed) ASSERT_TRUE(one.status.ok()) << one.status;
  EXPECT_EQ(landed[0].tensor.tensor_data(), items[0].tensor.tensor_data());
  EXPECT_TRUE(landed[0].tensor.IsAligned());
  EXPECT_EQ(landed[1].tensor.scalar<double>()(), 3.5);
  EXPECT_EQ(landed[2].tensor.flat<tensorflow::tstring>()(1), std::string(70000, 'a'));
  EXPECT_EQ(landed[3].kind, FusedKind::kDead);
  EXPECT_EQ(landed[4].tensor.shape(), TensorShape({0, 4}));
  const auto* inner = landed[5].tensor.scalar<tensorflow::Variant>()().get<Tensor>();
  ASSERT_NE(inner, nullptr);
  EXPECT_EQ(inner->tensor_data(), Numbers(2000, 7).tensor_data());
}

TEST(FusedAnswer, LeavesOutWhatDoesNotFit) {
  std::vector<FusedItem> items(3);
  items[0].tensor = Numbers(3000, 0);
  items[1].tensor = Numbers(3000, 1);
  items[2].tensor = Numbers(500, 2);
  Tensor answer;
  ASSERT_TRUE(EncodeFused(&items, 16000, &answer).ok());
  EXPECT_LE(answer.NumElements(), 16000);
  std::vector<FusedKind> kinds;
  for (const Landed& one : Decode(answer, 3)) kinds.push_back(one.kind);
  EXPECT_THAT(kinds, ElementsAre(FusedKind::kValue, FusedKind::kApart, FusedKind::kValue));
  EXPECT_EQ(items[1].kind, FusedKind::kApart);
  EXPECT_EQ(Decode(answer, 3)[2].tensor.tensor_data(), items[2].tensor.tensor_data());
}

TEST(FusedAnswer, IsDistinguishedFromATensor) {
  EXPECT_FALSE(IsFusedAnswer(Tensor()));
  EXPECT_FALSE(IsFusedAnswer(Numbers(10, 0)));
  EXPECT_FALSE(IsFusedAnswer(Tensor(tensorflow::DT_UINT8, TensorShape({0}))));
  Tensor zeros(tensorflow::DT_UINT8, TensorShape({100}));
  zeros.flat<uint8_t>().setZero();
  EXPECT_FALSE(IsFusedAnswer(zeros));
}

TEST(FusedAnswer, EndsEachTensorOnceWhateverItsBytes) {
  std::vector<FusedItem> items = SomeItems();
  items[0].tensor = Numbers(300, 1);
  Tensor answer;
  ASSERT_TRUE(EncodeFused(&items, kFusedBytesMax, &answer).ok());
  Random random(20261122);
  for (int round = 0; round < 3000; ++round) {
    int64_t size = answer.NumElements();
    if (round % 2 == 0) size = static_cast<int64_t>(random.Next() % static_cast<uint64_t>(size + 1));
    Tensor mutated(tensorflow::DT_UINT8, TensorShape({size}));
    for (int64_t i = 0; i < size; ++i) mutated.flat<uint8_t>()(i) = answer.flat<uint8_t>()(i);
    // Behind the magic, in the head for the most part.
    for (uint64_t mutations = random.Next() % 6; mutations > 0 && size > 208; --mutations)
      mutated.flat<uint8_t>()(8 + static_cast<int64_t>(random.Next() % 200)) = static_cast<uint8_t>(random.Next());
    for (const Landed& one : Decode(mutated, items.size())) EXPECT_FALSE(absl::IsUnknown(one.status));
  }
}

}  // namespace
}  // namespace fusewire::tf
