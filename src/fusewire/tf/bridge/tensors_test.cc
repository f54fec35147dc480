// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/bridge/tensor.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <tensorflow/core/common_runtime/device_factory.h>
#include <tensorflow/core/public/session_options.h>

#include "fusewire/wire/wire.h"

namespace fusewire::tf {
namespace {

using tensorflow::Tensor;
using tensorflow::TensorShape;

TensorPlace OnCpuOfTensors() {
  static tensorflow::Device* cpu =
      tensorflow::DeviceFactory::NewDevice("CPU", tensorflow::SessionOptions(), "/job:b/replica:0/task:0").release();
  TensorPlace place;
  place.device = cpu;
  return place;
}

// One in the head, one in a segment of the body, one in the head.
struct ThreeTensors {
  ThreeTensors() {
    Tensor large(tensorflow::DT_FLOAT, TensorShape({5000}));
    for (int i = 0; i < 5000; ++i) large.flat<float>()(i) = static_cast<float>(i);
    for (const Tensor& tensor : {Tensor(1.5F), large, Tensor(int64_t{7})})
      EXPECT_TRUE(AppendTensor(tensor, &head, &body).ok());
    EXPECT_EQ(body.size(), 1u);
    header.segments = 1;
    header.body_bytes = body[0].size();
  }
  Status BeginAll(TensorLandings* landings) {
    VarReader reader{ConstBytes(head)};
    while (!reader.done()) FUSEWIRE_TRY(landings->Begin(&reader, OnCpuOfTensors()));
    return Status::Ok();
  }
  std::string head;
  Buffers body;
  wire::FrameHeader header;
};

TEST(TensorLandings, BringEachTensorWhereverItsContentIs) {
  ThreeTensors sent;
  rpc::SegmentSizes sizes(sent.header, ConstBytes());
  TensorLandings landings(&sizes);
  ASSERT_TRUE(sent.BeginAll(&landings).ok());
  EXPECT_EQ(landings.size(), 3u);
  ASSERT_TRUE(landings.EndOfMessage().ok());
  pipe::Landing where = landings.Where();
  ASSERT_EQ(where.count, 1u);
  ASSERT_EQ(where.parts[0].size, sent.body[0].size());
  CopyBytes(where.parts[0], sent.body[0].bytes());
  std::vector<Tensor> tensors;
  ASSERT_TRUE(landings.Finish(OnCpuOfTensors(), &tensors).ok());
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].scalar<float>()(), 1.5F);
  EXPECT_EQ(tensors[1].flat<float>()(4999), 4999);
  EXPECT_EQ(tensors[2].scalar<int64_t>()(), 7);
}

TEST(TensorLandings, RefuseASegmentThatIsMissingOrLeftOver) {
  ThreeTensors sent;
  TensorLandings without(nullptr);
  EXPECT_FALSE(sent.BeginAll(&without).ok());

  std::string head;
  Buffers none;
  ASSERT_TRUE(AppendTensor(Tensor(1.5F), &head, &none).ok());
  rpc::SegmentSizes sizes(sent.header, ConstBytes());
  TensorLandings surplus(&sizes);
  VarReader reader{ConstBytes(head)};
  ASSERT_TRUE(surplus.Begin(&reader, OnCpuOfTensors()).ok());
  Status end = surplus.EndOfMessage();
  EXPECT_EQ(end.code(), Code::kCorrupt) << end.ToString();
}

TEST(TensorLandings, RefuseASegmentOfAnotherSize) {
  ThreeTensors sent;
  sent.header.body_bytes += 4;
  rpc::SegmentSizes sizes(sent.header, ConstBytes());
  TensorLandings landings(&sizes);
  EXPECT_FALSE(sent.BeginAll(&landings).ok());
}

}  // namespace
}  // namespace fusewire::tf
