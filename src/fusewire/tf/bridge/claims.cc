// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/bridge/claims.h"

#include <string>

#include <absl/strings/str_cat.h>
#include <tensorflow/core/framework/dataset.pb.h>
#include <tensorflow/core/framework/tensor.h>
#include <tensorflow/core/framework/tensor_shape.h>
#include <tensorflow/core/framework/types.h>
#include "fusewire/tf/heads/tensor_head.h"

namespace fusewire::tf {
namespace {

using tensorflow::TensorProto;
using tensorflow::TensorShape;
using tensorflow::VariantTensorDataProto;

// Of Snappy: a copy of 64 bytes is written in 3, and an element of a dataset is no longer than its length says.
constexpr uint64_t kSnappyRatioMax = 24;

TfStatus FalseClaim(const std::string& what) {
  return absl::DataLossError(absl::StrCat("a peer sent a malformed tensor: ", what));
}

TfStatus CheckTensor(const TensorProto& proto, int depth);

TfStatus CheckList(const std::string& metadata) {
  ListHead list;
  const Status read = DecodeListHead(ConstBytes(metadata.data(), metadata.size()), &list);
  if (!read.ok()) return FalseClaim(read.cause());
  const uint64_t type = list.type;
  const bool is_type = type <= INT32_MAX && tensorflow::DataType_IsValid(static_cast<int>(type));
  // Which numbers references are grows.
  if (!is_type || tensorflow::IsRefType(static_cast<tensorflow::DataType>(type)))
    return FalseClaim(absl::StrCat("a list of tensors of type ", type));
  tensorflow::TensorShapeProto shape;
  const bool is_shape = shape.ParseFromArray(list.shape.data, static_cast<int>(list.shape.size)) &&
                        tensorflow::PartialTensorShape::IsValid(shape);
  return is_shape ? TfStatus() : FalseClaim("a list of tensors whose shape is none");
}

// A compressed list of tensors: it is unpacked into tensors of the shapes in its metadata.
TfStatus CheckCompressed(const std::string& text) {
  tensorflow::data::CompressedElement element;
  if (!element.ParseFromString(text)) return FalseClaim("a compressed element that cannot be read");
  uint64_t sum = 0;
  for (const auto& component : element.component_metadata()) {
    TensorShape shape;
    TfStatus made = TensorShape::BuildTensorShape(component.tensor_shape(), &shape);
    if (!made.ok()) return FalseClaim(std::string(made.message()));
    const auto count = static_cast<uint64_t>(shape.num_elements());
    const auto parts = static_cast<uint64_t>(component.uncompressed_bytes_size());
    const bool is_string = component.dtype() == tensorflow::DT_STRING;
    // Tensors of other types are protobufs, which could not be checked before they are unpacked.
    if (!is_string && !tensorflow::DataTypeCanUseMemcpy(component.dtype()))
      return FalseClaim("a compressed element of variants or resources");
    if (parts != (is_string ? count : 1) && (parts > 0 || count > 0))
      return FalseClaim("a compressed element of other parts than its shape has");
    const auto element_bytes = static_cast<uint64_t>(tensorflow::DataTypeSize(component.dtype()));
    for (const auto part : component.uncompressed_bytes()) {
      const auto bytes = static_cast<uint64_t>(part);
      if (bytes > UINT32_MAX || (!is_string && (count > UINT32_MAX || bytes != count * element_bytes)))
        return FalseClaim("a compressed element of another size than its shape has");
      sum += bytes;
    }
  }
  const bool is_plausible = sum <= kSnappyRatioMax * element.data().size();
  return is_plausible ? TfStatus() : FalseClaim("a compressed element of more than its bytes can hold");
}

TfStatus CheckVariant(const VariantTensorDataProto& variant, int depth) {
  const std::string& type = variant.type_name();
  // Their decoders take the first tensor, whether there is one or not.
  const bool needs_one = type == "tensorflow::Tensor" || type == "tensorflow::data::WrappedDatasetVariant";
  if (needs_one && variant.tensors().empty()) return FalseClaim(absl::StrCat("a ", type, " without a tensor"));
  if (type == "tensorflow::TensorList") {
    TfStatus status = CheckList(variant.metadata());
    if (!status.ok()) return status;
  }
  if (type == "tensorflow.data.CompressedElement") {
    TfStatus status = CheckCompressed(variant.metadata());
    if (!status.ok()) return status;
  }
  for (const TensorProto& tensor : variant.tensors()) {
    TfStatus status = CheckTensor(tensor, depth + 1);
    if (!status.ok()) return status;
    // TensorFlow silently leaves out a tensor that can't be made, and its decoder takes the next one, or none. The
    // content has been checked, so making it can be tried here.
    if (!tensorflow::Tensor().FromProto(tensor)) return FalseClaim("a variant with a tensor that cannot be made");
  }
  return TfStatus();
}

// Of variants: packed texts, each a VariantTensorDataProto.
TfStatus CheckContent(const std::string& content, uint64_t count, int depth) {
  PackedTexts texts(ConstBytes(content.data(), content.size()));
  if (!texts.Open(count)) return FalseClaim("the sizes of its variants are cut off");
  for (uint64_t i = 0; i < count; ++i) {
    ConstBytes text;
    const bool is_whole = texts.Next(&text);
    VariantTensorDataProto variant;
    const bool is_one =
        is_whole && text.size <= INT32_MAX && variant.ParseFromArray(text.data, static_cast<int>(text.size));
    if (!is_one) return FalseClaim("a variant that cannot be read");
    TfStatus status = CheckVariant(variant, depth);
    if (!status.ok()) return status;
  }
  return TfStatus();
}

TfStatus CheckTensor(const TensorProto& proto, int depth) {
  if (depth > kVariantDepthMax) return FalseClaim(absl::StrCat("variants more than ", kVariantDepthMax, " deep"));
  TensorShape shape;
  TfStatus status = TensorShape::BuildTensorShape(proto.tensor_shape(), &shape);
  if (!status.ok()) return FalseClaim(std::string(status.message()));
  const auto count = static_cast<uint64_t>(shape.num_elements());
  // In every encoding, an element takes at least a byte.
  if (count > proto.ByteSizeLong()) return FalseClaim(absl::StrCat(count, " elements in fewer bytes"));
  for (const VariantTensorDataProto& variant : proto.variant_val()) {
    status = CheckVariant(variant, depth);
    if (!status.ok()) return status;
  }
  const bool in_content = proto.dtype() == tensorflow::DT_VARIANT && !proto.tensor_content().empty();
  return in_content ? CheckContent(std::string(proto.tensor_content()), count, depth) : status;
}

}  // namespace

TfStatus CheckClaims(const TensorProto& proto) { return CheckTensor(proto, 0); }

}  // namespace fusewire::tf
