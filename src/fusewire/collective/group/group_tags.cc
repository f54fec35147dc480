// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/group/group_tags.h"

#include "fusewire/base/random.h"

namespace fusewire::collective {
namespace {

constexpr int kOpBits = 40;
constexpr uint64_t kOpMask = (uint64_t{1} << kOpBits) - 1;
constexpr uint64_t kKeyedBit = uint64_t{1} << (kOpBits - 1);

uint64_t Mix(uint64_t a, uint64_t b) { return Random(Random(a).Next() ^ b).Next(); }

}  // namespace

uint64_t GroupTags::First(uint32_t epoch) const {
  uint64_t hash = epoch;
  for (const char letter : name_) hash = Mix(hash, static_cast<uint8_t>(letter));
  return uint64_t{1} << 63 | (hash >> 41) << kOpBits;
}

uint64_t GroupTags::Last(uint32_t epoch) const { return First(epoch) | kOpMask; }

uint64_t GroupTags::Of(uint32_t epoch, const Fingerprint& place) const {
  if (place.keyed == 0) return First(epoch) | (place.turn & (kKeyedBit - 1));
  return First(epoch) | kKeyedBit | ((Mix(place.key, place.turn) & kOpMask) >> 1);
}

}  // namespace fusewire::collective
