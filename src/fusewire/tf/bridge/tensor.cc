// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/bridge/tensor.h"

#include <sys/mman.h>

#include <memory>
#include <utility>

#include <absl/strings/str_cat.h>
#include <absl/types/span.h>
#include <tensorflow/core/common_runtime/copy_tensor.h>
#include <tensorflow/core/common_runtime/dma_helper.h>
#include <tensorflow/core/framework/dataset.pb.h>
#include <tensorflow/core/framework/tensor_shape.h>
#include <tensorflow/core/framework/types.h>
#include "fusewire/base/check.h"

namespace fusewire::tf {

using tensorflow::DataType;
using tensorflow::Tensor;

namespace {

using tensorflow::TensorProto;
using tensorflow::TensorShape;
using tensorflow::VariantTensorDataProto;

// Of Snappy: a copy of 64 bytes is written in 3, and an element of a dataset is no longer than its length says.
constexpr uint64_t kSnappyRatioMax = 24;

TfStatus Malformed(const std::string& what) {
  return absl::DataLossError(absl::StrCat("a peer sent a malformed tensor: ", what));
}

TfStatus CheckTensor(const TensorProto& proto, int depth);

TfStatus CheckList(const std::string& metadata) {
  ListHead list;
  const Status read = DecodeListHead(ConstBytes(metadata.data(), metadata.size()), &list);
  if (!read.ok()) return Malformed(read.cause());
  const uint64_t type = list.type;
  const bool is_type = type <= INT32_MAX && tensorflow::DataType_IsValid(static_cast<int>(type));
  // Asked of TensorFlow: newer versions may have more types of references.
  if (!is_type || tensorflow::IsRefType(static_cast<tensorflow::DataType>(type)))
    return Malformed(absl::StrCat("a list of tensors of type ", type));
  tensorflow::TensorShapeProto shape;
  const bool is_shape = shape.ParseFromArray(list.shape.data, static_cast<int>(list.shape.size)) &&
                        tensorflow::PartialTensorShape::IsValid(shape);
  return is_shape ? TfStatus() : Malformed("a list of tensors of a malformed shape");
}

// A compressed list of tensors: it is unpacked into tensors of the shapes in its metadata.
TfStatus CheckCompressed(const std::string& text) {
  tensorflow::data::CompressedElement element;
  if (!element.ParseFromString(text)) return Malformed("a compressed element that cannot be read");
  uint64_t sum = 0;
  for (const auto& component : element.component_metadata()) {
    TensorShape shape;
    TfStatus made = TensorShape::BuildTensorShape(component.tensor_shape(), &shape);
    if (!made.ok()) return Malformed(std::string(made.message()));
    const auto count = static_cast<uint64_t>(shape.num_elements());
    const auto parts = static_cast<uint64_t>(component.uncompressed_bytes_size());
    const bool is_string = component.dtype() == tensorflow::DT_STRING;
    // Tensors of other types are protobufs, which could not be checked before they are unpacked.
    if (!is_string && !tensorflow::DataTypeCanUseMemcpy(component.dtype()))
      return Malformed("a compressed element of variants or resources");
    if (parts != (is_string ? count : 1) && (parts > 0 || count > 0))
      return Malformed("a compressed element whose parts do not match its shape");
    const auto element_bytes = static_cast<uint64_t>(tensorflow::DataTypeSize(component.dtype()));
    for (const auto part : component.uncompressed_bytes()) {
      const auto bytes = static_cast<uint64_t>(part);
      if (bytes > UINT32_MAX || (!is_string && (count > UINT32_MAX || bytes != count * element_bytes)))
        return Malformed("a compressed element whose size does not match its shape");
      sum += bytes;
    }
  }
  const bool is_plausible = sum <= kSnappyRatioMax * element.data().size();
  return is_plausible ? TfStatus() : Malformed("a compressed element of more than its bytes can hold");
}

TfStatus CheckVariant(const VariantTensorDataProto& variant, int depth) {
  const std::string& type = variant.type_name();
  // Their decoders take the first tensor, whether there is one or not.
  const bool needs_one = type == "tensorflow::Tensor" || type == "tensorflow::data::WrappedDatasetVariant";
  if (needs_one && variant.tensors().empty()) return Malformed(absl::StrCat("a ", type, " without a tensor"));
  if (type == "tensorflow::TensorList") TF_RETURN_IF_ERROR(CheckList(variant.metadata()));
  if (type == "tensorflow.data.CompressedElement") TF_RETURN_IF_ERROR(CheckCompressed(variant.metadata()));
  for (const TensorProto& tensor : variant.tensors()) {
    TF_RETURN_IF_ERROR(CheckTensor(tensor, depth + 1));
    // TensorFlow silently leaves out a tensor that can't be made, and its decoder takes the next one, or none. The
    // content has been checked, so making it can be tried here.
    if (!tensorflow::Tensor().FromProto(tensor)) return Malformed("a variant with a tensor that cannot be made");
  }
  return TfStatus();
}

// Of variants: packed texts, each a VariantTensorDataProto.
TfStatus CheckContent(const std::string& content, uint64_t count, int depth) {
  PackedTexts texts(ConstBytes(content.data(), content.size()));
  if (!texts.Open(count)) return Malformed("the sizes of its variants are cut off");
  for (uint64_t i = 0; i < count; ++i) {
    ConstBytes text;
    const bool is_whole = texts.Next(&text);
    VariantTensorDataProto variant;
    const bool is_one =
        is_whole && text.size <= INT32_MAX && variant.ParseFromArray(text.data, static_cast<int>(text.size));
    if (!is_one) return Malformed("a variant that cannot be read");
    TF_RETURN_IF_ERROR(CheckVariant(variant, depth));
  }
  return TfStatus();
}

TfStatus CheckTensor(const TensorProto& proto, int depth) {
  if (depth > kVariantDepthMax) return Malformed(absl::StrCat("variants more than ", kVariantDepthMax, " deep"));
  TensorShape shape;
  TfStatus status = TensorShape::BuildTensorShape(proto.tensor_shape(), &shape);
  if (!status.ok()) return Malformed(std::string(status.message()));
  const auto count = static_cast<uint64_t>(shape.num_elements());
  // In every encoding, an element takes at least a byte.
  if (count > proto.ByteSizeLong()) return Malformed(absl::StrCat(count, " elements in fewer bytes"));
  for (const VariantTensorDataProto& variant : proto.variant_val()) {
    TF_RETURN_IF_ERROR(CheckVariant(variant, depth));
  }
  const bool in_content = proto.dtype() == tensorflow::DT_VARIANT && !proto.tensor_content().empty();
  return in_content ? CheckContent(std::string(proto.tensor_content()), count, depth) : status;
}

// A protobuf of up to this size travels in the head.
constexpr size_t kHeadBytesMax = 16 * 1024;

TfStatus NoMemory(uint64_t bytes) {
  return absl::ResourceExhaustedError(absl::StrCat("no memory for a tensor of ", bytes, " bytes that a peer sends"));
}

// TensorFlow's allocators wait ten seconds if memory is short. A reactor must not wait, since all its peers would, so
// it first checks whether memory is available; only for large sizes, as this takes some microseconds.
bool MayHave(uint64_t bytes) {
  constexpr uint64_t kLookedForBytes = uint64_t{1} << 20;
  if (bytes < kLookedForBytes) return true;
  void* const room = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return false;
  munmap(room, bytes);
  return true;
}

tensorflow::Allocator* AllocatorOf(const TensorPlace& place, const tensorflow::AllocatorAttributes& attributes) {
  return place.device != nullptr ? place.device->GetAllocator(attributes) : tensorflow::cpu_allocator();
}

bool IsControl(const Tensor& tensor) {
  return tensor.dtype() == tensorflow::DT_FLOAT && tensor.dims() == 1 && tensor.dim_size(0) == 0;
}

void AppendDescription(const Tensor& tensor, TensorForm form, std::string* head) {
  head->push_back(static_cast<char>(form));
  AppendVarint(head, static_cast<uint64_t>(tensor.dtype()));
  AppendVarint(head, static_cast<uint64_t>(tensor.dims()));
  for (int i = 0; i < tensor.dims(); ++i) AppendVarint(head, static_cast<uint64_t>(tensor.dim_size(i)));
}

Buffer Own(std::string text) {
  auto* owner = new std::string(std::move(text));
  return Buffer::Wrap(Bytes(owner->data(), owner->size()), owner,
                      [](void* done, Bytes) { delete static_cast<std::string*>(done); });
}

std::string EncodeStrings(const Tensor& tensor) {
  auto strings = tensor.flat<tensorflow::tstring>();
  std::string out;
  size_t bytes = 0;
  for (int64_t i = 0; i < strings.size(); ++i) bytes += strings(i).size() + 3;
  out.reserve(bytes);
  for (int64_t i = 0; i < strings.size(); ++i) AppendVarint(&out, strings(i).size());
  for (int64_t i = 0; i < strings.size(); ++i) out.append(strings(i).data(), strings(i).size());
  return out;
}

}  // namespace

TensorLandings::TensorLandings(const rpc::SegmentSizes* sizes, size_t expected) : sizes_(sizes) {
  landings_.reserve(expected);
  if (sizes != nullptr) places_.reserve(sizes->count());
}

Status TensorLandings::Begin(VarReader* reader, const TensorPlace& place) {
  landings_.emplace_back();
  TensorLanding& landing = landings_.back();
  TfStatus begun = landing.Begin(reader, place, [this] {
    return sizes_ != nullptr && places_.size() < sizes_->count() ? sizes_->at(places_.size()) : UINT64_MAX;
  });
  if (!begun.ok()) return NotBegun(begun);
  if (landing.has_segment()) places_.push_back(landing.place());
  FUSEWIRE_DCHECK(places_.size() <= landings_.size());
  return Status::Ok();
}

Status TensorLandings::EndOfMessage() {
  size_t segments = sizes_ != nullptr ? sizes_->count() : 0;
  sizes_ = nullptr;
  return places_.size() == segments ? Status::Ok() : Status::Corrupt("a segment that no tensor names");
}

TfStatus TensorLandings::Finish(const TensorPlace& place, std::vector<tensorflow::Tensor>* tensors) {
  TfStatus status;
  tensors->reserve(tensors->size() + landings_.size());
  for (TensorLanding& landing : landings_) {
    landing.Finish(place, [&status, tensors](const TfStatus& made, const tensorflow::Tensor& tensor) {
      status = made;
      tensors->push_back(tensor);
    });
    if (!status.ok()) break;
  }
  landings_.clear();
  return status;
}

TfStatus CheckClaims(const TensorProto& proto) { return CheckTensor(proto, 0); }

Buffer WrapTensor(const Tensor& tensor) {
  auto content = tensor.tensor_data();
  if (content.empty()) return Buffer();
  auto* held = new Tensor(tensor);
  return Buffer::WrapReadOnly(ConstBytes(content.data(), content.size()), held,
                              [](void* owner, Bytes) { delete static_cast<Tensor*>(owner); });
}

TfStatus AppendTensor(const Tensor& tensor, std::string* head, Buffers* body) {
  if (IsControl(tensor)) {
    head->push_back(static_cast<char>(TensorForm::kControl));
    return TfStatus();
  }
  if (tensorflow::DataTypeCanUseMemcpy(tensor.dtype())) {
    auto content = tensor.tensor_data();
    if (content.size() <= kInlineBytesMax) {
      AppendDescription(tensor, TensorForm::kRawInline, head);
      head->append(content.data(), content.size());
    } else {
      AppendDescription(tensor, TensorForm::kRaw, head);
      body->push_back(WrapTensor(tensor));
    }
    return TfStatus();
  }
  const bool is_string = tensor.dtype() == tensorflow::DT_STRING;
  Buffer content;
  if (is_string) {
    content = Own(EncodeStrings(tensor));
  } else {
    tensorflow::TensorProto proto;
    tensor.AsProtoTensorContent(&proto);
    std::string text;
    if (!proto.SerializeToString(&text)) {
      return absl::InternalError(
          absl::StrCat("a tensor of type ", tensorflow::DataTypeString(tensor.dtype()), " cannot be encoded"));
    }
    content = Own(std::move(text));
  }
  if (content.size() <= kInlineBytesMax) {
    AppendDescription(tensor, is_string ? TensorForm::kStringsInline : TensorForm::kProtoInline, head);
    AppendVarint(head, content.size());
    head->append(reinterpret_cast<const char*>(content.bytes().data), content.size());
  } else {
    AppendDescription(tensor, is_string ? TensorForm::kStrings : TensorForm::kProto, head);
    AppendVarint(head, content.size());
    body->push_back(std::move(content));
  }
  return TfStatus();
}

tensorflow::AllocatorAttributes HostForDevice() {
  tensorflow::AllocatorAttributes host;
  host.set_on_host(true);
  host.set_gpu_compatible(true);
  return host;
}

Status NotBegun(const TfStatus& why) {
  std::string words(why.message());
  return absl::IsResourceExhausted(why) ? Status::Overloaded(std::move(words)) : Status::Corrupt(std::move(words));
}

bool IsAccelerator(const tensorflow::Device* device) { return device->tensorflow_accelerator_device_info() != nullptr; }

TfStatus TensorLanding::Begin(VarReader* reader, const TensorPlace& place,
                              const std::function<uint64_t()>& segment_bytes) {
  TensorHead head;
  const Status read = DecodeTensorHead(reader, &head);
  if (!read.ok()) return Malformed(read.cause());
  form_ = head.form;
  if (form_ == TensorForm::kControl) {
    type_ = tensorflow::DT_FLOAT;
    shape_ = tensorflow::TensorShape({0});
    tensor_ = Tensor(AllocatorOf(place, place.attributes), type_, shape_);
    return TfStatus();
  }
  const uint64_t type = head.type;
  if (!tensorflow::DataType_IsValid(static_cast<int>(type)) || type == tensorflow::DT_INVALID || type >= 100)
    return Malformed(absl::StrCat("type ", type));
  FUSEWIRE_DCHECK(!has_segment_);  // a landing is used once
  type_ = static_cast<DataType>(type);
  TfStatus made = tensorflow::TensorShape::BuildTensorShape(absl::MakeConstSpan(head.dims.data(), head.rank), &shape_);
  if (!made.ok()) return Malformed(std::string(made.message()));

  if (head.is_raw()) return BeginRaw(reader, place, segment_bytes);
  const uint64_t bytes = head.bytes;
  if (head.is_inline()) {
    content_ = Buffer::CopyOf(head.content);
    return Decode(place);
  }
  if (bytes != segment_bytes()) return Malformed("its content and its segment differ in size");
  has_segment_ = true;
  content_ = Buffer::TryAllocate(static_cast<size_t>(bytes));
  if (content_.size() != bytes) return NoMemory(bytes);
  place_ = content_.bytes();
  return TfStatus();
}

TfStatus TensorLanding::BeginRaw(VarReader* reader, const TensorPlace& place,
                                 const std::function<uint64_t()>& segment_bytes) {
  const bool is_inline = form_ == TensorForm::kRawInline;
  if (!tensorflow::DataTypeCanUseMemcpy(type_))
    return Malformed(absl::StrCat("raw bytes of type ", tensorflow::DataTypeString(type_)));
  uint64_t element_bytes = static_cast<uint64_t>(tensorflow::DataTypeSize(type_));
  uint64_t count = static_cast<uint64_t>(shape_.num_elements());
  if (count > UINT64_MAX / element_bytes) return Malformed("it is larger than any memory");
  uint64_t bytes = count * element_bytes;
  ConstBytes content;
  if (is_inline) {
    content = reader->Take(bytes);
    if (!reader->ok()) return Malformed("its content is cut off");
  } else if (bytes != segment_bytes()) {
    return Malformed("its segment does not have the size of its shape");
  }
  on_device_ = place.device != nullptr && IsAccelerator(place.device) && !place.attributes.on_host();
  tensorflow::AllocatorAttributes attributes = place.attributes;
  if (on_device_) {
    attributes.set_on_host(true);
    attributes.set_gpu_compatible(true);
  }
  if (!MayHave(bytes)) return NoMemory(bytes);
  tensor_ = Tensor(AllocatorOf(place, attributes), type_, shape_);
  if (!tensor_.IsInitialized() && bytes > 0) return NoMemory(bytes);
  auto* start = bytes > 0 ? static_cast<uint8_t*>(tensorflow::DMAHelper::base(&tensor_)) : nullptr;
  if (is_inline) {
    if (bytes > 0) CopyBytes(Bytes(start, bytes), content);
    return TfStatus();
  }
  has_segment_ = true;
  place_ = Bytes(start, static_cast<size_t>(bytes));
  return TfStatus();
}

TfStatus TensorLanding::Decode(const TensorPlace& place) {
  if (form_ == TensorForm::kStrings || form_ == TensorForm::kStringsInline) return DecodeStrings();
  tensorflow::TensorProto proto;
  if (content_.size() > INT32_MAX || !proto.ParseFromArray(content_.bytes().data, static_cast<int>(content_.size())))
    return Malformed("its TensorProto cannot be read");
  content_.Drop();
  if (proto.dtype() != type_ || tensorflow::DataTypeCanUseMemcpy(type_) || type_ == tensorflow::DT_STRING)
    return Malformed(absl::StrCat("a TensorProto for a tensor of type ", tensorflow::DataTypeString(type_)));
  TF_RETURN_IF_ERROR(CheckClaims(proto));
  if (!shape_.IsSameSize(tensorflow::TensorShape(proto.tensor_shape())))
    return Malformed("its TensorProto and its description differ in shape");
  if (place.device == nullptr) return TfStatus();
  return place.device->MakeTensorFromProto(proto, place.attributes, &tensor_);
}

TfStatus TensorLanding::DecodeStrings() {
  uint64_t count = static_cast<uint64_t>(shape_.num_elements());
  if (type_ != tensorflow::DT_STRING || count > content_.size()) return Malformed("its strings are cut off");
  PackedTexts texts(content_.bytes());
  tensor_ = Tensor(type_, shape_);
  if (count == 0) return TfStatus();
  if (!tensor_.IsInitialized()) return NoMemory(count * sizeof(tensorflow::tstring));
  auto strings = tensor_.flat<tensorflow::tstring>();
  if (!texts.Open(count)) return Malformed("the lengths of its strings are cut off");
  for (uint64_t i = 0; i < count; ++i) {
    ConstBytes text;
    if (!texts.Next(&text)) return Malformed("its strings are cut off");
    strings(static_cast<int64_t>(i)).assign(reinterpret_cast<const char*>(text.data), text.size);
  }
  content_.Drop();
  return TfStatus();
}

void TensorLanding::Finish(const TensorPlace& place, std::function<void(const TfStatus&, const Tensor&)> done) {
  bool is_encoded = form_ == TensorForm::kStrings || form_ == TensorForm::kProto;
  if (is_encoded) {
    TfStatus decoded = Decode(place);
    if (!decoded.ok()) return done(decoded, Tensor());
  }
  if (!on_device_ || tensor_.NumElements() == 0) return done(TfStatus(), tensor_);
  auto on_host = std::make_shared<Tensor>(std::move(tensor_));
  auto on_device = std::make_shared<Tensor>(place.device->GetAllocator(place.attributes), type_, shape_);
  if (!on_device->IsInitialized()) return done(NoMemory(on_host->TotalBytes()), Tensor());
  // shared_ptr: the copy ends on the device's own thread, long after this returns.
  tensorflow::CopyTensor::ViaDMA(
      "fusewire", nullptr, place.context, place.device, place.device, HostForDevice(), place.attributes, on_host.get(),
      on_device.get(), 0,
      [on_host, on_device, done = std::move(done)](const TfStatus& copied) { done(copied, *on_device); });
}

bool AppendProto(const google::protobuf::MessageLite& proto, std::string* head, Buffers* body) {
  size_t bytes = proto.ByteSizeLong();
  if (bytes > INT32_MAX) return false;
  if (bytes <= kHeadBytesMax) return proto.AppendToString(head);
  Buffer content = Buffer::TryAllocate(bytes);
  if (content.size() != bytes || !proto.SerializeToArray(content.bytes().data, static_cast<int>(bytes))) return false;
  body->push_back(std::move(content));
  return true;
}

bool ParseProto(ConstBytes rest_of_head, const Buffers& body, google::protobuf::MessageLite* proto) {
  ConstBytes from = body.empty() ? rest_of_head : ConstBytes(body[0].bytes());
  return from.size <= INT32_MAX && proto->ParseFromArray(from.data, static_cast<int>(from.size));
}

}  // namespace fusewire::tf
