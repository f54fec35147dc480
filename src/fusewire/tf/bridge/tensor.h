// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Tensor as bytes and back: sent from its own memory, received into memory of its destination's allocator.
// Home: any thread. Owns: a reference to each tensor that is being sent; the memory that one lands in.
// Fails: with TensorFlow's status: a tensor that cannot be encoded, bytes that describe no tensor, no memory.
//   tensor := form:u8 [type:varint rank:varint dim:varint[rank] [bytes:varint] [content]]
//   form      content                                             where
//   kControl  none: the empty float that carries a control edge   -
//   kRaw      the elements, in memory order                       small: behind the description; else a segment
//   kStrings  length:varint per element, then all their bytes     likewise, behind bytes
//   kProto    a TensorProto (variants, resources)                 likewise, behind bytes
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <google/protobuf/message_lite.h>
#include <tensorflow/core/common_runtime/device.h>
#include <tensorflow/core/framework/allocator.h>
#include <tensorflow/core/framework/device_base.h>
#include <tensorflow/core/framework/tensor.h>
#include <tensorflow/core/framework/tensor.pb.h>
#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/buffer/buffer.h"
#include "fusewire/rpc/rpc.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/heads/receives.h"
#include "fusewire/tf/heads/varint.h"

namespace fusewire::tf {

// Checks the sizes that a peer's TensorProto claims, before TensorFlow decodes it: TensorFlow trusts the message. It
// fills a shape of 2^40 elements from one value, variants within variants recurse without a bound, and the decoders of
// some variants trust counts and sizes in the message. Home: any thread. Fails: with DataLoss, which
// names the claim.
// Variants in tensors of variants: a list of lists of lists is 3 deep.
constexpr int kVariantDepthMax = 32;

TfStatus CheckClaims(const tensorflow::TensorProto& proto);

// Content of up to this size follows its description. A copy costs less than a segment of its own, and releases the
// tensor's memory at once: otherwise the next update of a variable would have to copy it.
constexpr size_t kInlineBytesMax = 1024;
// Room for the head of a message with some small tensors, so that it does not grow step by step.
constexpr size_t kUsualHeadBytes = 512;

// The tensor's bytes for as long as the network needs them.
Buffer WrapTensor(const tensorflow::Tensor& tensor);
// Appends the description to `head` and, if it is not small, the content to `body`. `tensor` lies in host memory.
TfStatus AppendTensor(const tensorflow::Tensor& tensor, std::string* head, Buffers* body);

// The destination of a tensor.
struct TensorPlace {
  tensorflow::Device* device = nullptr;  // null: the tensor is no longer wanted, and only skipped
  tensorflow::AllocatorAttributes attributes;
  tensorflow::DeviceContext* context = nullptr;
};

// One tensor on its way in: Begin reads the description and allocates, the network fills place(), Finish makes the
// tensor.
class TensorLanding {
 public:
  // `segment_bytes` returns the size of its segment, for content that is not small.
  TfStatus Begin(VarReader* reader, const TensorPlace& place, const std::function<uint64_t()>& segment_bytes);
  // Whether it has a segment, and the memory for it, which may be empty.
  bool has_segment() const { return has_segment_; }
  Bytes place() const { return place_; }
  // Calls `done` here, or, where the tensor goes on to a device, on a thread of that device.
  void Finish(const TensorPlace& place, std::function<void(const TfStatus&, const tensorflow::Tensor&)> done);

 private:
  TfStatus BeginRaw(VarReader* reader, const TensorPlace& place, const std::function<uint64_t()>& segment_bytes);
  TfStatus Decode(const TensorPlace& place);
  TfStatus DecodeStrings();

  TensorForm form_ = TensorForm::kControl;
  tensorflow::DataType type_ = tensorflow::DT_INVALID;
  tensorflow::TensorShape shape_;
  tensorflow::Tensor tensor_;
  Buffer content_;  // of an encoded tensor
  Bytes place_;
  bool has_segment_ = false;
  bool on_device_ = false;  // tensor_ lies in host memory and still has to go to its device
};

// Host memory that a device copies to and from.
tensorflow::AllocatorAttributes HostForDevice();

// The status of a message whose tensor TensorLanding::Begin has refused: corrupt, or memory is short here.
Status NotBegun(const TfStatus& why);

// Whether tensors of this device are in memory that only the device can access.
bool IsAccelerator(const tensorflow::Device* device);

// Several incoming tensors of one message: each description is read in turn, and each content lands in its memory.
// Home: any thread. Owns: the memory into which they land. Fails: Begin and EndOfMessage, with the error in the
// description or the segments; Finish, with the first tensor that can't be made.
class TensorLandings {
 public:
  // The message's segments; null: it has none. `expected`: how many tensors are expected to come.
  explicit TensorLandings(const rpc::SegmentSizes* sizes, size_t expected = 0);

  // Reads the next one.
  Status Begin(VarReader* reader, const TensorPlace& place);
  // After all have been read: checks that no segment is left. The sizes are not used afterwards.
  Status EndOfMessage();
  pipe::Landing Where() { return pipe::Landing::Into(places_.data(), places_.size()); }
  size_t size() const { return landings_.size(); }
  // After all has landed. For tensors in host memory only; stops at the first that can't be made.
  TfStatus Finish(const TensorPlace& place, std::vector<tensorflow::Tensor>* tensors);

 private:
  const rpc::SegmentSizes* sizes_;
  std::vector<TensorLanding> landings_;
  std::vector<Bytes> places_;
};

// A protobuf on the wire: in the head if it is small, otherwise in a segment of its own.
// Home: any thread. Fails: with false, for more than protobuf can carry (2 GiB), or another protobuf.

bool AppendProto(const google::protobuf::MessageLite& proto, std::string* head, Buffers* body);
bool ParseProto(ConstBytes rest_of_head, const Buffers& body, google::protobuf::MessageLite* proto);

}  // namespace fusewire::tf
