// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The parameters of a rank's collective. The first message to each other rank carries them, so that ranks that make
// different calls never combine their data. Home: any thread, plain values. Fails: DecodeFingerprint,
// with kCorrupt.
//   fingerprint := version:u8 kind:u8 op:u8 type:u8 algorithm:u8 keyed:u8 epoch:u16 root:u32 segment:u32
//                  key:u64 turn:u64 amount:u64 digest:u64
#pragma once

#include <cstdint>
#include <string>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/collective/kernels/types.h"
#include "fusewire/collective/schedule/schedule.h"

namespace fusewire::collective {

constexpr uint8_t kFingerprintVersion = 4;
constexpr size_t kFingerprintBytes = 48;

struct Fingerprint {
  uint8_t kind = 0;
  uint8_t op = 0;
  uint8_t type = 0;
  uint8_t algorithm = 0;
  uint8_t keyed = 0;
  uint16_t epoch = 0;
  uint32_t root = 0;
  uint32_t segment = 0;
  uint64_t key = 0;     // if keyed
  uint64_t turn = 0;    // the position in the order of calls; if keyed: how often this key has failed
  uint64_t amount = 0;  // the sum of counts
  uint64_t digest = 0;  // of counts, if every rank knows all of them

  bool operator==(const Fingerprint& other) const = default;
  // The same position in the order of calls, or the same key.
  bool SamePlace(const Fingerprint& other) const;
  // "all-reduce sum of 12 f32"
  std::string Describe() const;
};

// The part of `request` that is the same at all ranks. The caller fills in the place and the epoch.
Fingerprint FingerprintOf(const Request& request, const Reduction& reduction);

void EncodeFingerprint(const Fingerprint& from, Bytes out);  // kFingerprintBytes
Result<Fingerprint> DecodeFingerprint(ConstBytes in);

}  // namespace fusewire::collective
