// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What describes a tensor in a message, and what encoded content packs, as plain values. bridge/tensor.h draws the
// format, writes it and makes the tensors; bridge/claims.h reads the metadata of lists. Home: none, pure functions.
// Owns: nothing: it points into the message. Fails: with the field that is wrong.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/tf/heads/varint.h"

namespace fusewire::tf {

enum class TensorForm : uint8_t {
  kControl = 0,
  kRawInline = 1,
  kRaw = 2,
  kStringsInline = 3,
  kStrings = 4,
  kProtoInline = 5,
  kProto = 6,
};
constexpr uint8_t kTensorFormMax = 6;
constexpr size_t kTensorRankMax = 254;

struct TensorHead {
  bool is_inline() const { return static_cast<uint8_t>(form) % 2 == 1; }
  bool is_raw() const { return form == TensorForm::kRaw || form == TensorForm::kRawInline; }

  TensorForm form = TensorForm::kControl;  // of which the rest is not set
  uint64_t type = 0;                       // TensorFlow's number; may be none
  size_t rank = 0;
  std::array<int64_t, kTensorRankMax> dims;  // so many as the rank, the others are not set; may be negative
  // Of strings and protobufs; raw elements that are inline follow, as many as the shape needs.
  uint64_t bytes = 0;
  ConstBytes content;  // inline
};
Status DecodeTensorHead(VarReader* reader, TensorHead* head);

// content := bytes:varint[count] u8[sum of bytes]
class PackedTexts {
 public:
  explicit PackedTexts(ConstBytes content) : lengths_(content), texts_(ConstBytes()), content_(content) {}
  // Finds the first of so many. False: their lengths are cut off.
  bool Open(uint64_t count);
  // So often. False: it is cut off.
  bool Next(ConstBytes* text);

 private:
  VarReader lengths_, texts_;
  const ConstBytes content_;
};

// metadata := invalid:varint index:varint[invalid] type:varint elements_max:varint shape
struct ListHead {
  uint64_t type = 0;
  ConstBytes shape;  // a protobuf of TensorFlow's
};
Status DecodeListHead(ConstBytes metadata, ListHead* head);

}  // namespace fusewire::tf
