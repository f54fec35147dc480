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
  // Checked before anything is allocated: each want becomes a receive in TensorFlow, and all peers wait meanwhile.
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

Status DecodeTensorHead(VarReader* reader, TensorHead* head) {
  const uint8_t form = reader->Byte();
  // Otherwise missing bytes would be read as the empty float.
  if (!reader->ok()) return Status::Corrupt("it is cut off");
  if (form > kTensorFormMax) return Status::Corrupt("form " + std::to_string(form));
  head->form = static_cast<TensorForm>(form);
  if (head->form == TensorForm::kControl) return Status::Ok();
  head->type = reader->Varint();
  const uint64_t rank = reader->Varint();
  if (rank > kTensorRankMax) return Status::Corrupt("rank " + std::to_string(rank));
  head->rank = static_cast<size_t>(rank);
  for (size_t i = 0; i < head->rank; ++i) head->dims[i] = static_cast<int64_t>(reader->Varint());
  if (!reader->ok()) return Status::Corrupt("its description is cut off");
  if (head->is_raw()) return Status::Ok();
  head->bytes = reader->Varint();
  if (!head->is_inline()) return Status::Ok();
  head->content = reader->Take(head->bytes);
  return reader->ok() ? Status::Ok() : Status::Corrupt("its content is cut off");
}

bool PackedTexts::Open(uint64_t count) {
  // Two passes over the lengths, so that only the content's real size determines an allocation.
  lengths_ = VarReader(content_);
  for (uint64_t i = 0; i < count && lengths_.ok(); ++i) lengths_.Varint();
  texts_ = VarReader(lengths_.left());
  const bool has_lengths = lengths_.ok();
  lengths_ = VarReader(content_);
  return has_lengths;
}

bool PackedTexts::Next(ConstBytes* text) {
  *text = texts_.Take(lengths_.Varint());
  return texts_.ok();
}

Status DecodeListHead(ConstBytes metadata, ListHead* head) {
  VarReader reader(metadata);
  const uint64_t invalid = reader.Varint();
  if (invalid > reader.left().size)
    return Status::Corrupt("a list of tensors with " + std::to_string(invalid) + " invalid ones");
  for (uint64_t i = 0; i < invalid; ++i) reader.Varint();
  head->type = reader.Varint();
  reader.Varint();
  if (!reader.ok()) return Status::Corrupt("a list of tensors whose description is cut off");
  head->shape = reader.left();
  return Status::Ok();
}

Status DecodeStatusHead(VarReader* reader, StatusHead* head) {
  head->code = reader->Varint();
  if (!reader->ok()) return Status::Corrupt("it ends before its code");
  if (head->code > kStatusCodeMax) {
    return Status::Corrupt("its code is " + std::to_string(head->code) + ", and the highest is " +
                           std::to_string(kStatusCodeMax));
  }
  if (head->code == 0) return Status::Ok();
  head->message = reader->Text();
  if (!reader->ok()) return Status::Corrupt("it ends within its message");
  const uint64_t payloads = reader->Varint();
  if (payloads > kStatusPayloadsMax) {
    return Status::Corrupt("it has " + std::to_string(payloads) + " payloads of at most " +
                           std::to_string(kStatusPayloadsMax));
  }
  for (uint64_t i = 0; i < payloads; ++i) {
    const ConstBytes url = reader->Text();
    const ConstBytes value = reader->Text();
    if (!reader->ok()) {
      return Status::Corrupt("it ends within payload " + std::to_string(i + 1) + " of " + std::to_string(payloads));
    }
    head->payloads.emplace_back(url, value);
  }
  return reader->ok() ? Status::Ok() : Status::Corrupt("it ends before the number of its payloads");
}

}  // namespace fusewire::tf
