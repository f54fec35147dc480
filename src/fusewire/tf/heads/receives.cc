// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/heads/receives.h"

#include <string>

namespace fusewire::tf {

Status DecodeBook(VarReader* reader, uint64_t* book) {
  const size_t bytes = reader->left().size;
  *book = reader->Fixed64();
  if (reader->ok()) return Status::Ok();
  return Status::Corrupt("a question for tensors is cut off: of the number of its asker's keys it has " +
                         std::to_string(bytes) + " bytes");
}

Status DecodeWantCount(VarReader* reader, uint64_t* count) {
  *count = reader->Varint();
  // Before anything is allocated for them: each want becomes a receive in TensorFlow, while all peers wait.
  if (*count > kWantsMax) {
    return Status::Corrupt("a question for " + std::to_string(*count) + " tensors: one call may ask for " +
                           std::to_string(kWantsMax));
  }
  if (*count <= reader->left().size) return Status::Ok();
  return Status::Corrupt("a question for tensors is cut off: it announces " + std::to_string(*count) + " wants, and " +
                         std::to_string(reader->left().size) + " bytes follow");
}

WantHead DecodeWant(VarReader* reader) {
  WantHead want;
  const uint64_t tag = reader->Varint();
  want.number = tag >> kFlagBits;
  want.says_key = (tag & kSaysKey) != 0;
  want.says_step = (tag & kSaysStep) != 0;
  want.says_frame = (tag & kSaysFrame) != 0;
  if (want.says_key) want.key = reader->Text();
  if (want.says_step) want.step = static_cast<int64_t>(reader->Fixed64());
  if (want.says_frame) want.frame = reader->Text();
  return want;
}

Status DecodeAnswerHead(VarReader* reader, uint64_t wants, AnswerHead* head) {
  head->index = reader->Varint();
  const uint8_t kind = reader->Byte();
  if (!reader->ok() || head->index >= wants || kind > kError)
    return Status::Corrupt("an answer to a tensor that was not requested");
  head->kind = static_cast<AnswerKind>(kind);
  return Status::Ok();
}

Status DecodeFusedCount(VarReader* reader, uint64_t* count) {
  *count = reader->Varint();
  if (*count != 0 && *count <= reader->left().size) return Status::Ok();
  return Status::Corrupt("it announces " + std::to_string(*count) + " keys, and " +
                         std::to_string(reader->left().size) + " bytes follow");
}

bool IsFusedAnswer(ConstBytes answer) {
  VarReader reader(answer);
  return reader.Fixed64() == kFusedMagic && reader.ok();
}

Status DecodeFusedAnswer(ConstBytes answer, VarReader* head, VarReader* segments) {
  *segments = VarReader(answer);
  segments->Fixed64();
  *head = VarReader(segments->Take(segments->Fixed64()));
  return segments->ok() ? Status::Ok() : Status::Corrupt("its head is cut off");
}

Status DecodeFusedItem(VarReader* head, size_t index, size_t count, FusedKind* kind) {
  const uint8_t byte = head->Byte();
  if (!head->ok()) {
    return Status::Corrupt("it ends before item " + std::to_string(index + 1) + " of " + std::to_string(count));
  }
  if (byte > static_cast<uint8_t>(FusedKind::kApart)) {
    return Status::Corrupt("item " + std::to_string(index + 1) + " has kind " + std::to_string(byte) +
                           ", and 2 is the last");
  }
  *kind = static_cast<FusedKind>(byte);
  return Status::Ok();
}

Status DecodeFusedSegment(VarReader* head, VarReader* segments, ConstBytes* segment) {
  *segment = segments->Take(head->Varint());
  return segments->ok() ? Status::Ok() : Status::Corrupt("a tensor is cut off");
}

}  // namespace fusewire::tf
