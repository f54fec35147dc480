// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// input := method:u8 call_top:u8 aux:u32 has_body:u8 meta
#include <cstddef>
#include <cstdint>
#include <string>

#include "allocations.h"
#include "fusewire/base/check.h"
#include "fusewire/wire/p2p.h"

namespace fusewire::wire {
namespace {

constexpr size_t kBefore = 7;
constexpr size_t kWordsBytesMax = 2000;  // of an error

void Try(const uint8_t* how, ConstBytes meta) {
  FrameHeader header;
  header.method = how[0];
  header.call = static_cast<uint64_t>(how[1]) << 56 | 5;
  for (int i = 0; i < 4; ++i) header.aux |= static_cast<uint32_t>(how[2 + i]) << 8 * i;
  header.segments = how[6] & 1;
  header.body_bytes = header.segments == 0 ? 0 : how[6] + size_t{1};
  header.meta_bytes = static_cast<uint32_t>(meta.size);
  const AllocatedBytes allocated;
  Result<P2pMessage> read = DecodeP2p(header, meta);
  FUSEWIRE_CHECK(allocated.sum() <= kWordsBytesMax);
  if (!read.ok()) {
    FUSEWIRE_CHECK(read.status().code() == Code::kCorrupt);
    return;
  }
  const P2pMessage& message = read.value();
  // All fields that were read are in the meta, once, and encode to the same bytes.
  size_t numbers = P2pNumbers(message.verb) * sizeof(uint64_t);
  FUSEWIRE_CHECK(numbers + message.head.size + message.payload.size == meta.size);
  FUSEWIRE_CHECK(message.head.size == message.head_bytes);
  std::string again(kP2pNumbersMax * sizeof(uint64_t), '\0');
  FUSEWIRE_CHECK(EncodeP2p(message.verb, message.numbers, Bytes(again.data(), again.size())) == numbers);
  again.resize(numbers);
  FUSEWIRE_CHECK(again + message.head.ToString() + message.payload.ToString() == meta.ToString());
  FUSEWIRE_CHECK(header.body_bytes == 0 || message.payload.empty());
}

}  // namespace
}  // namespace fusewire::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < fusewire::wire::kBefore) return 0;
  fusewire::wire::Try(data, fusewire::ConstBytes(data + fusewire::wire::kBefore, size - fusewire::wire::kBefore));
  return 0;
}
