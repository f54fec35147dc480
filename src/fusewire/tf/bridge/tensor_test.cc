// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/bridge/tensor.h"

#include <sys/resource.h>

#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "fusewire/base/random.h"
#include "fusewire/tf/bridge/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tensorflow/core/common_runtime/device_factory.h>
#include <tensorflow/core/common_runtime/dma_helper.h>
#include <tensorflow/core/framework/variant.h>
#include <tensorflow/core/framework/variant_encode_decode.h>
#include <tensorflow/core/public/session_options.h>

namespace fusewire::tf {
namespace {

using tensorflow::DataType;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using testing::HasSubstr;

tensorflow::Device* Cpu() {
  static tensorflow::Device* cpu =
      tensorflow::DeviceFactory::NewDevice("CPU", tensorflow::SessionOptions(), "/job:a/replica:0/task:0").release();
  return cpu;
}

TensorPlace OnCpu() {
  TensorPlace place;
  place.device = Cpu();
  return place;
}

struct Received {
  TfStatus status;
  Tensor tensor;
};

// As the wire would: the head, and each segment into its place.
Received Receive(const std::string& head, const Buffers& body) {
  Received received;
  TensorLanding landing;
  VarReader reader{ConstBytes(head)};
  received.status =
      landing.Begin(&reader, OnCpu(), [&body] { return body.empty() ? UINT64_MAX : uint64_t{body[0].size()}; });
  if (!received.status.ok()) return received;
  EXPECT_EQ(landing.has_segment(), !body.empty());
  if (landing.has_segment()) {
    EXPECT_EQ(landing.place().size, body[0].size());
    // In pieces, so that no copy is a large one.
    for (size_t from = 0; from < body[0].size(); from += 1000) {
      size_t size = std::min<size_t>(1000, body[0].size() - from);
      CopyBytes(landing.place().Sub(from, size), body[0].bytes().Sub(from, size));
    }
  }
  landing.Finish(OnCpu(), [&received](const TfStatus& status, const Tensor& tensor) {
    received.status = status;
    received.tensor = tensor;
  });
  return received;
}

Received Travel(const Tensor& tensor) {
  std::string head;
  Buffers body;
  TfStatus sent = AppendTensor(tensor, &head, &body);
  if (!sent.ok()) return Received{sent, Tensor()};
  return Receive(head, body);
}

void Fill(Tensor* tensor, uint64_t seed) {
  Random random(seed);
  auto content = tensor->tensor_data();
  auto* bytes = reinterpret_cast<uint8_t*>(const_cast<char*>(content.data()));
  for (size_t i = 0; i < content.size(); ++i) bytes[i] = static_cast<uint8_t>(random.Next() & 1);  // also a bool
}

const std::vector<TensorShape>& Shapes() {
  static const auto* shapes = new std::vector<TensorShape>{
      TensorShape({}),     TensorShape({0}),       TensorShape({1}),           TensorShape({0, 7}),
      TensorShape({3, 5}), TensorShape({70000}),   TensorShape({65536, 1, 2}), TensorShape({1, 2, 3, 1, 2, 1, 2, 3}),
      TensorShape({1024}), TensorShape({128, 16}),
  };
  return *shapes;
}

TEST(TensorTravels, InEveryRawTypeAndShape) {
  int types = 0;
  for (int number = 1; number < 100; ++number) {
    if (!tensorflow::DataType_IsValid(number)) continue;
    auto type = static_cast<DataType>(number);
    if (!tensorflow::DataTypeCanUseMemcpy(type)) continue;
    ++types;
    for (const TensorShape& shape : Shapes()) {
      Tensor sent(type, shape);
      Fill(&sent, static_cast<uint64_t>(number));
      Received received = Travel(sent);
      ASSERT_TRUE(received.status.ok()) << received.status << " " << tensorflow::DataTypeString(type);
      EXPECT_EQ(received.tensor.dtype(), type);
      EXPECT_EQ(received.tensor.shape(), shape);
      EXPECT_EQ(received.tensor.tensor_data(), sent.tensor_data()) << shape.DebugString();
      EXPECT_TRUE(received.tensor.IsAligned());
    }
  }
  EXPECT_GE(types, 20);
}

TEST(TensorTravels, AsStrings) {
  for (const TensorShape& shape : {TensorShape({}), TensorShape({0}), TensorShape({3}), TensorShape({40, 50})}) {
    Tensor sent(tensorflow::DT_STRING, shape);
    auto strings = sent.flat<tensorflow::tstring>();
    for (int64_t i = 0; i < strings.size(); ++i) strings(i) = std::string(static_cast<size_t>(i % 300), 'a') + '\0';
    Received received = Travel(sent);
    ASSERT_TRUE(received.status.ok()) << received.status;
    EXPECT_EQ(received.tensor.shape(), shape);
    for (int64_t i = 0; i < strings.size(); ++i)
      EXPECT_EQ(received.tensor.flat<tensorflow::tstring>()(i), strings(i)) << i;
  }
}

TEST(TensorTravels, AsAVariant) {
  Tensor sent(tensorflow::DT_VARIANT, TensorShape({2}));
  Tensor inner(tensorflow::DT_INT32, TensorShape({3}));
  inner.flat<int32_t>().setConstant(7);
  sent.flat<tensorflow::Variant>()(0) = inner;
  sent.flat<tensorflow::Variant>()(1) = inner;
  Received received = Travel(sent);
  ASSERT_TRUE(received.status.ok()) << received.status;
  const auto* there = received.tensor.flat<tensorflow::Variant>()(1).get<Tensor>();
  ASSERT_NE(there, nullptr);
  EXPECT_EQ(there->flat<int32_t>()(2), 7);
}

TEST(TensorTravels, WithoutACopyWhenItIsLarge) {
  Tensor sent(tensorflow::DT_FLOAT, TensorShape({100000}));
  std::string head;
  Buffers body;
  ASSERT_TRUE(AppendTensor(sent, &head, &body).ok());
  ASSERT_EQ(body.size(), 1u);
  EXPECT_EQ(static_cast<const void*>(body[0].bytes().data), tensorflow::DMAHelper::base(&sent));
  EXPECT_FALSE(sent.RefCountIsOne());
  body.clear();
  EXPECT_TRUE(sent.RefCountIsOne());
}

TEST(TensorTravels, InAByteIfItOnlyCarriesAControlEdge) {
  std::string head;
  Buffers body;
  ASSERT_TRUE(AppendTensor(Tensor(tensorflow::DT_FLOAT, TensorShape({0})), &head, &body).ok());
  EXPECT_EQ(head.size(), 1u);
  Received received = Receive(head, body);
  ASSERT_TRUE(received.status.ok()) << received.status;
  EXPECT_EQ(received.tensor.shape(), TensorShape({0}));
}

std::string HeadOf(const Tensor& tensor) {
  std::string head;
  Buffers body;
  EXPECT_TRUE(AppendTensor(tensor, &head, &body).ok());
  return head;
}

TEST(MalformedTensor, IsRefused) {
  Tensor floats(tensorflow::DT_FLOAT, TensorShape({2, 3}));
  Fill(&floats, 1);
  std::string good = HeadOf(floats);
  struct Lie {
    const char* what;
    std::string head;
  };
  std::string huge = good;
  huge.replace(3, 1, "\xff\xff\xff\xff\xff\xff\xff\x7f");
  for (const Lie& lie : std::vector<Lie>{{"form", "\x09" + good.substr(1)},
                                         {"type", good.substr(0, 1) + "\x63" + good.substr(2)},
                                         {"raw bytes of type string", good.substr(0, 1) + "\x07" + good.substr(2)},
                                         {"cut off", good.substr(0, good.size() - 1)},
                                         {"cut off", good.substr(0, 3)},
                                         {"a peer sent", huge}}) {
    Received received = Receive(lie.head, Buffers());
    EXPECT_TRUE(absl::IsDataLoss(received.status)) << lie.what << ": " << received.status;
    EXPECT_THAT(std::string(received.status.message()), HasSubstr(lie.what));
  }
}

// Its first byte would be read as the form that has no others.
TEST(MalformedTensor, IsRefusedIfItIsEmpty) { EXPECT_TRUE(absl::IsDataLoss(Receive("", Buffers()).status)); }

TEST(MalformedTensor, NeverCrashesWhateverItsBytes) {
  std::vector<std::string> seeds = {HeadOf(Tensor(tensorflow::DT_FLOAT, TensorShape({2, 3}))),
                                    HeadOf(Tensor(tensorflow::DT_STRING, TensorShape({4}))),
                                    HeadOf(Tensor(tensorflow::DT_VARIANT, TensorShape({1})))};
  Random random(20261121);
  for (int round = 0; round < 200000; ++round) {
    std::string head = seeds[random.Next() % seeds.size()];
    for (uint64_t mutations = random.Next() % 4; mutations > 0 && !head.empty(); --mutations)
      head[random.Next() % head.size()] = static_cast<char>(random.Next());
    head.resize(random.Next() % (head.size() + 1));
    TensorLanding landing;
    VarReader reader{ConstBytes(head)};
    // A segment of a size that no shape here has: nothing large is allocated for a lie.
    TfStatus status = landing.Begin(&reader, OnCpu(), [] { return uint64_t{12345}; });
    if (status.ok() && !landing.has_segment()) landing.Finish(OnCpu(), [](const TfStatus&, const Tensor&) {});
  }
}

// On a reactor: TensorFlow's own allocator waits ten seconds before it fails.
TEST(TensorWithoutMemory, IsRefusedAtOnce) {
  constexpr int64_t kBytes = int64_t{1} << 30;
  std::string head("\2\4", 2);  // raw, uint8
  AppendVarint(&head, 1);
  AppendVarint(&head, kBytes);
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  ASSERT_GT(pages, 0u);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &limit), 0);
  const rlimit tight{pages * 4096 + kBytes / 4, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
  const auto began = std::chrono::steady_clock::now();
  TensorLanding landing;
  VarReader reader{ConstBytes(head)};
  TfStatus begun = landing.Begin(&reader, OnCpu(), [] { return uint64_t{kBytes}; });
  const auto took = std::chrono::steady_clock::now() - began;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  EXPECT_TRUE(absl::IsResourceExhausted(begun)) << begun;
  EXPECT_EQ(NotBegun(begun).code(), Code::kOverloaded);
  EXPECT_LT(took, std::chrono::seconds(5));
}

TEST(TfStatusTravels, WithItsPayloads) {
  TfStatus sent = absl::AbortedError("the step was stopped");
  sent.SetPayload("why", absl::Cord("because"));
  std::string text;
  AppendTfStatus(sent, &text);
  VarReader reader{ConstBytes(text)};
  TfStatus received;
  ASSERT_TRUE(ReadTfStatus(&reader, &received).ok());
  EXPECT_EQ(received, sent);
  EXPECT_TRUE(reader.done());
  for (size_t size = 0; size < text.size(); ++size) {
    VarReader cut(ConstBytes(text.data(), size));
    EXPECT_FALSE(ReadTfStatus(&cut, &received).ok()) << size;
  }
}

// TensorFlow's coordinators look for these words.
TEST(TfStatusTravels, InTheWordsOfGrpc) {
  TfStatus told = WithTarget(ToTf(Status::Unavailable("connection reset")), "/job:ps/replica:0/task:1", "RunGraph");
  EXPECT_TRUE(absl::IsUnavailable(told));
  EXPECT_THAT(std::string(told.message()),
              HasSubstr("GRPC error information from remote target /job:ps/replica:0/task:1"
                        " while calling /tensorflow.WorkerService/RunGraph"));
  EXPECT_THAT(std::string(told.message()), HasSubstr("connection reset"));
}

}  // namespace
}  // namespace fusewire::tf
