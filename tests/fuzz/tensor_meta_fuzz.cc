// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// input := tensors u8[...]
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "allocations.h"
#include "fusewire/base/check.h"
#include "fusewire/wire/meta.h"

namespace fusewire::wire {
namespace {

constexpr size_t kWordsBytesMax = 2000;  // for an error

void Try(ConstBytes in) {
  ConstBytes left = in;
  std::vector<TensorMeta> tensors(1);
  const AllocatedBytes allocated;
  const Status read = DecodeTensors(&left, &tensors);
  // A tensor takes 16 bytes of the peer's and one TensorMeta of ours; names and dimensions take what they take.
  FUSEWIRE_CHECK(allocated.sum() <= in.size * (2 + sizeof(TensorMeta) / 16) + kWordsBytesMax);
  if (!read.ok()) {
    FUSEWIRE_CHECK(read.code() == Code::kCorrupt);
    FUSEWIRE_CHECK(left.data == in.data);
    FUSEWIRE_CHECK(left.size == in.size);
    FUSEWIRE_CHECK(tensors.size() == 1);
    return;
  }
  FUSEWIRE_CHECK(left.end() == in.end());
  // The peer has paid with its own bytes for each that we hold.
  FUSEWIRE_CHECK(tensors.capacity() * 16 <= in.size);
  size_t held_bytes = 0;
  for (const TensorMeta& meta : tensors) {
    held_bytes += meta.dims.capacity() * sizeof(int64_t) + meta.name.size();
    Result<int64_t> count = ElementCount(meta);
    FUSEWIRE_CHECK(count.ok());
    FUSEWIRE_CHECK(count.value() >= 0);
    FUSEWIRE_CHECK(meta.bytes == 0 || !meta.dead);
  }
  FUSEWIRE_CHECK(held_bytes <= in.size);
  std::string encoded;
  AppendTensors(tensors, &encoded);
  FUSEWIRE_CHECK(encoded == in.Sub(0, in.size - left.size).ToString());
}

}  // namespace
}  // namespace fusewire::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fusewire::wire::Try(fusewire::ConstBytes(data, size));
  return 0;
}
