// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/bridge/tensor.h"

#include <string>
#include <vector>

#include <tensorflow/core/common_runtime/device_factory.h>
#include <tensorflow/core/protobuf/worker.pb.h>
#include <tensorflow/core/public/session_options.h>
#include "fusewire/wire/wire.h"

#include <gtest/gtest.h>

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

tensorflow::RegisterGraphRequest Request(size_t bytes) {
  tensorflow::RegisterGraphRequest request;
  request.set_session_handle(std::string(bytes, 's'));
  return request;
}

TEST(Protos, AreInTheHeadWhileTheyAreSmall) {
  std::string head = "before";
  Buffers body;
  ASSERT_TRUE(AppendProto(Request(1000), &head, &body));
  EXPECT_TRUE(body.empty());
  EXPECT_EQ(head.substr(0, 6), "before");
  tensorflow::RegisterGraphRequest read;
  ASSERT_TRUE(ParseProto(ConstBytes(head).From(6), body, &read));
  EXPECT_EQ(read.session_handle(), std::string(1000, 's'));
}

TEST(Protos, ThatAreLargeHaveASegmentOfTheirOwn) {
  std::string head = "before";
  Buffers body;
  ASSERT_TRUE(AppendProto(Request(16 * 1024), &head, &body));
  EXPECT_EQ(head, "before");
  ASSERT_EQ(body.size(), 1u);
  tensorflow::RegisterGraphRequest read;
  ASSERT_TRUE(ParseProto(ConstBytes("no protobuf", 11), body, &read));  // the head is not looked at
  EXPECT_EQ(read.session_handle().size(), 16u * 1024);
}

TEST(Protos, OfOtherBytesAreRefused) {
  tensorflow::RegisterGraphRequest read;
  EXPECT_FALSE(ParseProto(ConstBytes("\xff\xff\xff", 3), Buffers(), &read));
  EXPECT_TRUE(ParseProto(ConstBytes(), Buffers(), &read));
  Buffers body;
  body.push_back(Buffer::CopyOf(ConstBytes("\x0a\x7f", 2)));  // a text that is cut off
  EXPECT_FALSE(ParseProto(ConstBytes(), body, &read));
}

}  // namespace
}  // namespace fusewire::tf
