// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/heads/calls.h"

#include <string>

namespace fusewire::tf {

bool DecodeCleanups(VarReader* reader, const std::function<void(int64_t)>& each) {
  const uint64_t count = reader->Varint();
  if (count > kCleanupsMax) return false;
  for (uint64_t i = 0; i < count; ++i) {
    const int64_t step = static_cast<int64_t>(reader->Fixed64());
    if (!reader->ok()) return false;
    each(step);
  }
  return reader->ok();
}

Status DecodeAbort(ConstBytes head, int64_t* step) {
  VarReader reader(head);
  *step = static_cast<int64_t>(reader.Fixed64());
  return reader.ok() ? Status::Ok() : Status::Invalid("the number of a step to abort is cut off");
}

Status DecodeEcho(ConstBytes head, bool has_body, uint64_t* bytes) {
  VarReader reader(head);
  *bytes = reader.Fixed64();
  if (!reader.ok() || !reader.done() || has_body) return Status::Invalid("an echo whose head is not a number of bytes");
  return Status::Ok();
}

Status DecodePlaceHead(ConstBytes head, PlaceHead* place) {
  VarReader reader(head);
  place->session = reader.Text();
  place->fingerprint = reader.Text();
  return reader.ok() && reader.done() ? Status::Ok() : Status::Invalid("a part of a graph without a name");
}

Status DecodePlaced(VarReader* reader, uint64_t* part) {
  *part = reader->Fixed64();
  return reader->ok() ? Status::Ok() : Status::Corrupt("a peer's answer ends within the number of a part");
}

Status DecodeRunHead(VarReader* reader, RunHead* run) {
  run->part = reader->Fixed64();
  run->step = static_cast<int64_t>(reader->Fixed64());
  const uint8_t flags = reader->Byte();
  if (!reader->ok()) return Status::Invalid("a request for a run ends before its flags");
  if ((flags & ~kRunFlagsAll) != 0) {
    return Status::Invalid("a request for a run has flags " + std::to_string(flags) + ", and only " +
                           std::to_string(kRunFlagsAll) + " is known: the worker's Fusewire is newer than ours");
  }
  run->is_traced = (flags & kTraced) != 0;
  return Status::Ok();
}

KeepHead DecodeKeepHead(VarReader* reader) {
  KeepHead keep;
  keep.session = reader->Text();
  keep.step = static_cast<int64_t>(reader->Fixed64());
  return keep;
}

Status DecodeKeptHead(VarReader* reader, KeptHead* kept) {
  const uint64_t number = reader->Varint(), takers = reader->Varint();
  if (number >= kKeptNumbersMax || takers > UINT32_MAX) {
    return Status::Invalid("a value to be kept has number " + std::to_string(number) + " and " +
                           std::to_string(takers) + " takers: at least one is too large");
  }
  kept->number = static_cast<uint32_t>(number);
  kept->takers = static_cast<uint32_t>(takers);
  return Status::Ok();
}

}  // namespace fusewire::tf
