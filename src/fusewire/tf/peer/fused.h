// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A fused receive over gRPC: one RecvTensor call for several tensors of one task. Both the request and the answer.
// Home: any thread, pure functions. Fails: with TensorFlow's status. An answer in another format comes
// from stock TensorFlow, which looks only at the first key.
//   request := RecvTensorRequest: the first key in rendezvous_key, and in transport_options an Any of our url
//   Any     := keys:varint key:text[keys]
//   answer  := RecvTensorResponse with a tensor: a vector of uint8
//   vector  := magic:u64 head_bytes:u64 head segment*
//   head    := item[keys]
//   item    := kind:u8 [bytes:varint tensor]    kValue; a segment of that many bytes, in the items' order, unless 0
//   tensor                                      bridge/tensor.h
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <tensorflow/core/framework/rendezvous.h>
#include <tensorflow/core/framework/tensor.h>
#include <tensorflow/core/protobuf/worker.pb.h>
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/bridge/tensor.h"
#include "fusewire/tf/heads/receives.h"

namespace fusewire::tf {

using ParsedKeys = std::vector<tensorflow::Rendezvous::ParsedKey>;

// The most that protobuf, and so gRPC, can carry, less the fields around the vector.
constexpr uint64_t kFusedBytesMax = INT32_MAX - 4096;

// ---- the request ----
void AskFused(const ParsedKeys& keys, tensorflow::RecvTensorRequest* request);
bool IsFused(const tensorflow::RecvTensorRequest& request);
TfStatus ReadFused(const tensorflow::RecvTensorRequest& request, ParsedKeys* keys);

// ---- the answer ----
struct FusedItem {
  tensorflow::Tensor tensor;  // in host memory
  FusedKind kind = FusedKind::kValue;
};
// An item that would make the answer longer than this becomes kApart.
TfStatus EncodeFused(std::vector<FusedItem>* items, uint64_t bytes_max, tensorflow::Tensor* answer);

bool IsFusedAnswer(const tensorflow::Tensor& answer);
// Calls `done` once for each place: here, or on a thread of the tensor's device.
using FusedDone = std::function<void(size_t, const TfStatus&, FusedKind, const tensorflow::Tensor&)>;
void DecodeFused(const tensorflow::Tensor& answer, const std::vector<TensorPlace>& places, const FusedDone& done);

}  // namespace fusewire::tf
