// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The messages by which tensors are received, as plain values: over our wire (peer/keys.h draws the request,
// calls.h the answer) and fused over gRPC (peer/fused.h). Home: none, pure functions. Owns: nothing: it points
// into the message. Fails: with what is wrong, or as it is said.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/tf/heads/varint.h"

namespace fusewire::tf {

// ---- a request of keys ----
constexpr uint64_t kSaysKey = 1, kSaysStep = 2, kSaysFrame = 4;
constexpr int kFlagBits = 3;
static_assert((kSaysKey | kSaysStep | kSaysFrame) < 1 << kFlagBits);

struct WantHead {
  uint64_t number = 0;
  bool says_key = false, says_step = false, says_frame = false;
  ConstBytes key, frame;
  int64_t step = 0;
};
// In turn. Where a want is cut off, reader->ok() is false.
Status DecodeBook(VarReader* reader, uint64_t* book);
constexpr size_t kWantsMax = 512;  // in one call; more is refused
Status DecodeWantCount(VarReader* reader, uint64_t* count);
WantHead DecodeWant(VarReader* reader);

// ---- an answer ----
enum AnswerKind : uint8_t { kValue = 0, kDead = 1, kError = 2 };

struct AnswerHead {
  uint64_t index = 0;
  AnswerKind kind = kValue;
};
// The head of the answer to one of `wants`.
Status DecodeAnswerHead(VarReader* reader, uint64_t wants, AnswerHead* head);

// ---- fused ----
enum class FusedKind : uint8_t {
  kValue = 0,
  kDead = 1,
  kApart = 2,  // it did not fit, and is still there: request it on its own
};
constexpr uint64_t kFusedMagic = 0x3163657264736675;  // no other answer begins with this number
constexpr size_t kFusedIntroductionBytes = 16;

// Of a request; as many texts follow.
Status DecodeFusedCount(VarReader* reader, uint64_t* count);
bool IsFusedAnswer(ConstBytes answer);
Status DecodeFusedAnswer(ConstBytes answer, VarReader* head, VarReader* segments);
Status DecodeFusedItem(VarReader* head, size_t index, size_t count, FusedKind* kind);
// Of a value.
Status DecodeFusedSegment(VarReader* head, VarReader* segments, ConstBytes* segment);

// What describes a tensor in a message, and what encoded content packs, as plain values. bridge/tensor.h draws the
// format, writes it and makes the tensors; bridge/claims.h reads the metadata of lists. Home: none, pure functions.
// Owns: nothing: it points into the message. Fails: with the field that is wrong.

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
  std::array<int64_t, kTensorRankMax> dims;  // as many as the rank, the others are not set; may be negative
  // Of strings and protobufs; raw elements that are inline follow, as many as the shape needs.
  uint64_t bytes = 0;
  ConstBytes content;  // inline
};
Status DecodeTensorHead(VarReader* reader, TensorHead* head);

// content := bytes:varint[count] u8[sum of bytes]
class PackedTexts {
 public:
  explicit PackedTexts(ConstBytes content) : lengths_(content), texts_(ConstBytes()), content_(content) {}
  // Finds the first of `count`. False: their lengths are cut off.
  bool Open(uint64_t count);
  // Reads that many. False: it is cut off.
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

// A status of TensorFlow's in a message, as plain values. bridge/status.h draws the format and writes it.
// Home: none, pure functions. Owns: nothing: it points into the message. Fails: with the field that is wrong.

constexpr uint64_t kStatusCodeMax = 16;
constexpr uint64_t kStatusPayloadsMax = 64;

struct StatusHead {
  uint64_t code = 0;  // 0 has nothing else
  ConstBytes message;
  std::vector<std::pair<ConstBytes, ConstBytes>> payloads;  // url, value
};
Status DecodeStatusHead(VarReader* reader, StatusHead* head);

}  // namespace fusewire::tf
