// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/bridge/proto.h"

#include <utility>

namespace fusewire::tf {
namespace {

// A protobuf of up to this size travels in the head.
constexpr size_t kHeadBytesMax = 16 * 1024;

}  // namespace

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
