// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// input := limits:u8 header:u8[40] meta:u8[...]
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "allocations.h"
#include "fusewire/base/check.h"
#include "fusewire/wire/wire.h"

namespace fusewire::wire {
namespace {

constexpr size_t kWordsBytesMax = 2000;  // for an error; a good frame needs nothing

// Narrow, usual, and none.
Limits ChooseLimits(uint8_t choice) {
  Limits limits;
  if (choice % 3 == 1) return limits;
  const bool narrow = choice % 3 == 0;
  limits.meta_bytes_max = narrow ? 64 : UINT32_MAX;
  limits.segments_max = narrow ? 4 : UINT16_MAX;
  limits.body_bytes_max = narrow ? 1000 : UINT64_MAX;
  limits.chunk_bytes_max = narrow ? 100 : UINT32_MAX;
  return limits;
}

void CheckLimits(const FrameHeader& header, const Limits& limits) {
  FUSEWIRE_CHECK(IsKnown(static_cast<uint8_t>(header.kind)));
  FUSEWIRE_CHECK(header.flags == 0);
  FUSEWIRE_CHECK(header.meta_bytes <= limits.meta_bytes_max);
  FUSEWIRE_CHECK(header.segments <= limits.segments_max);
  FUSEWIRE_CHECK(header.meta_bytes >= SegmentTableBytes(header.segments));
  if (header.kind == FrameKind::kChunk) {
    FUSEWIRE_CHECK(header.body_bytes >= 1);
    FUSEWIRE_CHECK(header.body_bytes <= limits.chunk_bytes_max);
    FUSEWIRE_CHECK(header.meta_bytes == 0);
    return;
  }
  FUSEWIRE_CHECK(header.body_bytes <= limits.body_bytes_max);
  FUSEWIRE_CHECK(header.body_bytes == 0 || header.segments > 0);
  if (IsMessage(header.kind)) return;
  FUSEWIRE_CHECK(header.body_bytes == 0);
  FUSEWIRE_CHECK(header.segments == 0);
  FUSEWIRE_CHECK(header.method == 0);
  FUSEWIRE_CHECK(header.meta_bytes == 0 || header.kind == FrameKind::kGoodbye);
}

// The segments are the body, whatever the peer wrote into their table.
void CheckSegments(const FrameHeader& header, ConstBytes meta) {
  unsigned __int128 sum = 0;
  for (uint16_t i = 0; i < header.segments; ++i) sum += SegmentBytes(header, meta, i);
  FUSEWIRE_CHECK(sum == header.body_bytes || header.segments == 0);
  FUSEWIRE_CHECK(HeadOf(header, meta).size + SegmentTableBytes(header.segments) == meta.size);
}

void Try(ConstBytes header_bytes, ConstBytes behind, const Limits& limits) {
  const AllocatedBytes allocated;
  Result<FrameHeader> decoded = DecodeHeader(header_bytes, limits);
  FUSEWIRE_CHECK(allocated.sum() <= (decoded.ok() ? 0 : kWordsBytesMax));
  if (!decoded.ok()) {
    FUSEWIRE_CHECK(decoded.status().code() == Code::kCorrupt);
    FUSEWIRE_CHECK(!decoded.status().cause().empty());
    return;
  }
  const FrameHeader& header = decoded.value();
  CheckLimits(header, limits);
  if (behind.size < header.meta_bytes) return;
  const ConstBytes meta = behind.Sub(0, header.meta_bytes);
  const Status checked = CheckMeta(header_bytes, header, meta);
  FUSEWIRE_CHECK(allocated.sum() <= (checked.ok() ? 0 : kWordsBytesMax));
  if (checked.ok() && IsMessage(header.kind)) CheckSegments(header, meta);

  // The same frame with the check that it should have.
  uint8_t encoded[kHeaderBytes];
  EncodeHeader(header, meta, Bytes(encoded, sizeof(encoded)));
  const bool same = std::memcmp(encoded, header_bytes.data, kHeaderBytes) == 0;
  FUSEWIRE_CHECK(same || !checked.ok());
  FUSEWIRE_CHECK(std::memcmp(encoded, header_bytes.data, 20) == 0);
  FUSEWIRE_CHECK(std::memcmp(encoded + 24, header_bytes.data + 24, kHeaderBytes - 24) == 0);
  Result<FrameHeader> again = DecodeHeader(ConstBytes(encoded, sizeof(encoded)), limits);
  FUSEWIRE_CHECK(again.ok());
  const Status repaired = CheckMeta(ConstBytes(encoded, sizeof(encoded)), again.value(), meta);
  if (repaired.ok() && IsMessage(header.kind)) CheckSegments(header, meta);
  FUSEWIRE_CHECK(repaired.ok() || header.segments > 1);
}

}  // namespace
}  // namespace fusewire::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using fusewire::ConstBytes;
  if (size == 0) return 0;
  const ConstBytes frame(data + 1, size - 1);
  const size_t header_bytes = frame.size < fusewire::wire::kHeaderBytes ? frame.size : fusewire::wire::kHeaderBytes;
  fusewire::wire::Try(frame.Sub(0, header_bytes), frame.From(header_bytes), fusewire::wire::ChooseLimits(data[0]));
  return 0;
}
