// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Each of these, given to TensorFlow as it is, ends the process or takes all of its memory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <tensorflow/core/common_runtime/device_factory.h>
#include <tensorflow/core/framework/dataset.pb.h>
#include <tensorflow/core/framework/resource_handle.h>
#include <tensorflow/core/framework/variant.h>
#include <tensorflow/core/framework/variant_encode_decode.h>
#include <tensorflow/core/kernels/tensor_list.h>
#include <tensorflow/core/public/session_options.h>

#include "fusewire/tf/bridge/tensor.h"

namespace fusewire::tf {
namespace {

using tensorflow::Tensor;
using tensorflow::TensorProto;
using tensorflow::TensorShape;
using tensorflow::VariantTensorDataProto;
using testing::HasSubstr;

tensorflow::Device* OurCpu() {
  static tensorflow::Device* cpu =
      tensorflow::DeviceFactory::NewDevice("CPU", tensorflow::SessionOptions(), "/job:a/replica:0/task:0").release();
  return cpu;
}

TfStatus Land(const std::string& head, Tensor* tensor) {
  TensorPlace place;
  place.device = OurCpu();
  TensorLanding landing;
  VarReader reader{ConstBytes(head)};
  TfStatus status = landing.Begin(&reader, place, [] { return UINT64_MAX; });
  if (!status.ok()) return status;
  landing.Finish(place, [&status, tensor](const TfStatus& made, const Tensor& landed) {
    status = made;
    *tensor = landed;
  });
  return status;
}

// As a peer would send it: form 5, type, rank, dimensions, then the protobuf.
std::string HeadOf(const TensorProto& proto) {
  std::string head(1, 5);
  AppendVarint(&head, static_cast<uint64_t>(proto.dtype()));
  AppendVarint(&head, static_cast<uint64_t>(proto.tensor_shape().dim_size()));
  for (const auto& dim : proto.tensor_shape().dim()) AppendVarint(&head, static_cast<uint64_t>(dim.size()));
  AppendText(&head, proto.SerializeAsString());
  return head;
}

void ExpectRefused(const TensorProto& proto, const char* why) {
  Tensor tensor;
  TfStatus status = Land(HeadOf(proto), &tensor);
  EXPECT_TRUE(absl::IsDataLoss(status)) << why << ": " << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(why));
}

TensorProto Of(tensorflow::DataType type, std::vector<int64_t> dims) {
  TensorProto proto;
  proto.set_dtype(type);
  for (int64_t dim : dims) proto.mutable_tensor_shape()->add_dim()->set_size(dim);
  return proto;
}

// A tensor of one variant, as typed field or as content.
TensorProto Holding(const VariantTensorDataProto& variant, bool in_content) {
  TensorProto proto = Of(tensorflow::DT_VARIANT, {1});
  if (!in_content) {
    *proto.add_variant_val() = variant;
    return proto;
  }
  std::string text = variant.SerializeAsString(), content;
  AppendText(&content, text);
  proto.set_tensor_content(content);
  return proto;
}

void ExpectVariantRefused(const VariantTensorDataProto& variant, const char* why) {
  for (const bool in_content : {false, true}) ExpectRefused(Holding(variant, in_content), why);
}

TEST(Claims, OfMoreElementsThanBytes) {
  TensorProto handles = Of(tensorflow::DT_RESOURCE, {int64_t{1} << 34});
  handles.add_resource_handle_val()->set_name("a");
  ExpectRefused(handles, "elements in fewer bytes");
  TensorProto variants = Of(tensorflow::DT_VARIANT, {int64_t{1} << 34});
  variants.set_tensor_content(std::string(3, 0));
  ExpectRefused(variants, "elements in fewer bytes");
  VariantTensorDataProto wide;
  wide.set_type_name("tensorflow::Tensor");
  *wide.add_tensors() = Of(tensorflow::DT_FLOAT, {int64_t{1} << 40});
  wide.mutable_tensors(0)->add_float_val(1);
  ExpectVariantRefused(wide, "elements in fewer bytes");
}

TEST(Claims, OfAVariantThatHoldsWhatItLacks) {
  VariantTensorDataProto empty;
  empty.set_type_name("tensorflow::Tensor");
  ExpectVariantRefused(empty, "without a tensor");
  empty.set_type_name("tensorflow::data::WrappedDatasetVariant");
  ExpectVariantRefused(empty, "without a tensor");
}

// TensorFlow leaves it out, and then takes the first of none.
TEST(Claims, OfAVariantWithAnInvalidTensor) {
  std::vector<TensorProto> none = {Of(tensorflow::DT_INVALID, {1}), Of(tensorflow::DT_FLOAT, {1}),
                                   Of(tensorflow::DT_FLOAT_REF, {1})};
  none[1].set_tensor_content("abc");
  for (const TensorProto& tensor : none) {
    VariantTensorDataProto variant;
    variant.set_type_name("tensorflow::Tensor");
    *variant.add_tensors() = tensor;
    variant.mutable_tensors(0)->add_float_val(1);
    ExpectVariantRefused(variant, "a tensor that cannot be made");
  }
}

TEST(Claims, OfListsOfTensors) {
  VariantTensorDataProto list;
  list.set_type_name("tensorflow::TensorList");
  std::string count;
  AppendVarint(&count, uint64_t{1} << 60);
  std::string wide(1, 0);
  AppendVarint(&wide, tensorflow::DT_FLOAT);
  AppendVarint(&wide, 7);
  tensorflow::TensorShapeProto shape;
  for (int i = 0; i < 300; ++i) shape.add_dim()->set_size(2);
  shape.AppendToString(&wide);
  for (const std::string& metadata : {std::string(), count, wide, std::string("\0\x7f\0", 3)}) {
    list.set_metadata(metadata);
    ExpectVariantRefused(list, "a list of tensors");
  }
}

TEST(Claims, OfVariantsWithinVariants) {
  VariantTensorDataProto inner;
  inner.set_type_name("tensorflow::Tensor");
  *inner.add_tensors() = Of(tensorflow::DT_FLOAT, {0});
  auto nested = [&inner](int depth) {
    VariantTensorDataProto outer = inner;
    for (int i = 1; i < depth; ++i) {
      VariantTensorDataProto next;
      next.set_type_name("tensorflow::Tensor");
      *next.add_tensors() = Holding(outer, true);
      outer = next;
    }
    return Holding(outer, true);
  };
  Tensor tensor;
  EXPECT_TRUE(Land(HeadOf(nested(kVariantDepthMax)), &tensor).ok());
  ExpectRefused(nested(kVariantDepthMax + 1), "deep");
  ExpectRefused(nested(500), "deep");
}

VariantTensorDataProto Iterator(const tensorflow::data::CompressedElement& element) {
  VariantTensorDataProto compressed;
  compressed.set_type_name("tensorflow.data.CompressedElement");
  compressed.set_metadata(element.SerializeAsString());
  VariantTensorDataProto iterator;
  iterator.set_type_name("tensorflow::Iterator");
  *iterator.add_tensors() = Holding(compressed, false);
  iterator.mutable_tensors(0)->mutable_tensor_shape()->clear_dim();
  return iterator;
}

// Unpacked into a tensor of eight bytes: a hundred, or four thousand millions.
TEST(Claims, OfCompressedElements) {
  auto element = [](int64_t dim, std::vector<uint64_t> bytes, tensorflow::DataType type) {
    tensorflow::data::CompressedElement made;
    made.set_data(std::string("\x64\xf0\x63", 3) + std::string(100, 'x'));
    auto* component = made.add_component_metadata();
    component->set_dtype(type);
    component->mutable_tensor_shape()->add_dim()->set_size(dim);
    for (const uint64_t one : bytes) component->add_uncompressed_bytes(one);
    return made;
  };
  ExpectVariantRefused(Iterator(element(2, {100}, tensorflow::DT_INT32)), "size does not match");
  ExpectVariantRefused(Iterator(element(2, {}, tensorflow::DT_INT32)), "parts do not match");
  ExpectVariantRefused(Iterator(element(1, {4, 4}, tensorflow::DT_STRING)), "parts do not match");
  ExpectVariantRefused(Iterator(element(1, {}, tensorflow::DT_VARIANT)), "variants or resources");
  ExpectVariantRefused(Iterator(element(1, {4000000000}, tensorflow::DT_STRING)), "than its bytes can hold");
  ExpectVariantRefused(Iterator(element(-3, {8}, tensorflow::DT_INT32)), "a malformed tensor");
  Tensor tensor;
  EXPECT_TRUE(Land(HeadOf(Holding(Iterator(element(100, {100}, tensorflow::DT_UINT8)), true)), &tensor).ok());
}

TEST(Claims, OfAnotherTypeOrShapeThanAnnounced) {
  TensorProto floats = Of(tensorflow::DT_FLOAT, {2});
  floats.add_float_val(1);
  floats.add_float_val(2);
  ExpectRefused(floats, "a TensorProto for a tensor of type float");
  std::string head = HeadOf(Of(tensorflow::DT_VARIANT, {0}));
  head[1] = static_cast<char>(tensorflow::DT_RESOURCE);
  Tensor tensor;
  EXPECT_TRUE(absl::IsDataLoss(Land(head, &tensor)));
  head = HeadOf(Of(tensorflow::DT_VARIANT, {0, 3}));
  head[4] = 4;
  EXPECT_TRUE(absl::IsDataLoss(Land(head, &tensor)));
}

TEST(Claims, ThatAreTrueAreBelieved) {
  tensorflow::TensorList list;
  list.element_dtype = tensorflow::DT_FLOAT;
  list.element_shape = tensorflow::PartialTensorShape({-1, 3});
  list.tensors().emplace_back(tensorflow::DT_FLOAT, TensorShape({5, 3}));
  list.tensors().back().flat<float>().setConstant(3);
  list.tensors().emplace_back(tensorflow::DT_INVALID);
  list.tensors().emplace_back(tensorflow::DT_FLOAT, TensorShape({0, 3}));
  Tensor sent(tensorflow::DT_VARIANT, TensorShape({2}));
  sent.flat<tensorflow::Variant>()(0) = list;
  std::string head;
  Buffers body;
  ASSERT_TRUE(AppendTensor(sent, &head, &body).ok());
  ASSERT_TRUE(body.empty());
  Tensor landed;
  TfStatus status = Land(head, &landed);
  ASSERT_TRUE(status.ok()) << status;
  const auto* there = landed.flat<tensorflow::Variant>()(0).get<tensorflow::TensorList>();
  ASSERT_NE(there, nullptr);
  ASSERT_EQ(there->tensors().size(), 3u);
  EXPECT_EQ(there->tensors()[0].flat<float>()(14), 3);

  Tensor handles(tensorflow::DT_RESOURCE, TensorShape({3}));
  handles.flat<tensorflow::ResourceHandle>()(1).set_name("table");
  head.clear();
  ASSERT_TRUE(AppendTensor(handles, &head, &body).ok());
  status = Land(head, &landed);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(landed.flat<tensorflow::ResourceHandle>()(1).name(), "table");
}

}  // namespace
}  // namespace fusewire::tf
