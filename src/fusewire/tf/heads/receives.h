// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The messages by which tensors are received, as plain values: over our wire (peer/keys.h draws the request,
// peer/methods.h the answer) and fused over gRPC (peer/fused.h). Home: none, pure functions. Owns: nothing: it points
// into the message. Fails: with what is wrong, or as it is said.
#pragma once

#include <cstddef>
#include <cstdint>

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
// To one of so many wants.
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

}  // namespace fusewire::tf
