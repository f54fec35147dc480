// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/heads/status_head.h"

#include <string>

namespace fusewire::tf {

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
