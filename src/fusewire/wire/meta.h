// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Heads that all layers above use: a Status as text, and descriptions of tensors.
// Home: none, pure functions. Fails: Decode* returns kCorrupt and has then changed nothing.
//   status  := app_code:u32 cause:text peer:text phase:text next:text          text := bytes:u16 u8[bytes]
//   tensors := count:u16 tensor[count]
//   tensor  := type:u16 flags:u16 rank:u16 name:text bytes:u64 dim:i64[rank]   flags: bit 0 dead, bit 1 encoded
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"

namespace fusewire::wire {

constexpr size_t kStatusTextBytesMax = 8192;  // for each text of a Status that we send; a longer text is truncated

// Appends the texts of an error; its code is in the frame header's aux.
void AppendStatus(const Status& status, std::string* out);
// Reads the peer's status into *out. The result says whether it could be read.
Status DecodeStatus(Code code, ConstBytes in, Status* out);

struct TensorMeta {
  uint16_t type = 0;     // a number defined by the layer above (TensorFlow's DataType)
  bool dead = false;     // TensorFlow's dead tensor: no bytes, and its consumers don't run
  bool encoded = false;  // the bytes are an encoding defined by the layer above, not the raw elements
  std::string name;
  uint64_t bytes = 0;         // the segment's size
  std::vector<int64_t> dims;  // explicit, any rank, any size; each at least 0
};
// The number of elements; kCorrupt if a dimension is negative or the product does not fit in 63 bits.
Result<int64_t> ElementCount(const TensorMeta& meta);
// The caller respects the limits of the format: at most 65535 tensors, dimensions, and bytes in a name.
void AppendTensors(const std::vector<TensorMeta>& tensors, std::string* out);
// Reads one list of tensors from the front of `in` and advances `in`. Allocates no more than the size of `in`
// justifies.
Status DecodeTensors(ConstBytes* in, std::vector<TensorMeta>* out);

}  // namespace fusewire::wire
