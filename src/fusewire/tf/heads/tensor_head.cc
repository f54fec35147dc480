// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/heads/tensor_head.h"

#include <string>

namespace fusewire::tf {

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

}  // namespace fusewire::tf
