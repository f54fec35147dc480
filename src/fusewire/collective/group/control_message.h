// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Control messages: the messages between members of a group that do not belong to an operation.
// Home: any thread, plain values. Fails: DecodeControl, with kCorrupt.
//   message := version:u8 verb:u8 epoch:u32 round:u64 print:fingerprint status seats
//   status  := code:u8 cause:text peer:text next:text      text := bytes:u16 u8[bytes]
//   seats   := count:u32 u8[(count + 7) / 8]               bit s: seat s is dead
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/collective/run/fingerprint.h"

namespace fusewire::collective {

enum class ControlVerb : uint8_t {
  kFailed = 1,   // the operation of that place has failed
  kBroken = 2,   // the epoch is broken
  kLeft = 3,     // the sender leaves the group, without a failure
  kVote = 4,     // in that round of shrinking, the sender considers these seats dead
  kDecided = 5,  // the next epoch begins without these
};

// Whether it has a reason, which is not ok. The others have none.
constexpr bool SaysWhy(ControlVerb verb) { return verb == ControlVerb::kFailed || verb == ControlVerb::kBroken; }

constexpr size_t kControlBytesMax = 8 * 1024;
constexpr uint32_t kControlSeatsMax = 32 * 1024;

struct ControlMessage {
  ControlVerb verb = ControlVerb::kFailed;
  uint32_t epoch = 0;
  uint64_t round = 0;            // kVote
  Fingerprint print = {};        // kFailed: the place
  Status status = {};            // kFailed and kBroken
  std::vector<bool> seats = {};  // kVote and kDecided: the dead ones
};

std::string EncodeControl(const ControlMessage& message);
Result<ControlMessage> DecodeControl(ConstBytes in);

}  // namespace fusewire::collective
