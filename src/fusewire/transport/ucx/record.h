// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The records that two ends exchange once they share UCX: one UCX message a record.
//   to        its receiver: a number that the receiver drew, which only the peer knows
//   sequence  of kBytes and kLoan, in the stream's order; UCX may deliver them in another one
//   value     of kTaken: what of the sender's records has been taken since the beginning, as Cost() counts
#pragma once

#include <cstddef>
#include <cstdint>

#include "fusewire/base/bytes.h"

namespace fusewire::transport {

enum class UcxRecordKind : uint32_t { kBytes = 1, kLoan = 2, kTaken = 3 };

struct UcxRecord {
  uint64_t to = 0;
  uint64_t sequence = 0;
  uint64_t value = 0;  // kTaken: what was taken, in all; else: how many of our records its writer had seen
  UcxRecordKind kind = UcxRecordKind::kBytes;
  uint32_t unused = 0;
};
static_assert(sizeof(UcxRecord) == 32, "both ends count on it");

// In a message of its own, copied on both sides; less than what counts as a large copy.
constexpr size_t kUcxBytesMax = kCopyBytesMax - 1;
// Pieces from this size on land by UCX's rendezvous, in the receiver's own memory.
constexpr size_t kUcxLendBytesMin = kCopyBytesMax;
// Of one rendezvous: the most that a receiver sets aside when its handler has no room for it.
constexpr size_t kUcxLoanBytesMax = 1 << 20;
// How much may wait at a receiver whose handler does not read: 16 messages.
constexpr uint64_t kUcxWindowBytes = 256 * 1024;
// The cost of a record besides its bytes.
constexpr uint64_t kUcxRecordCost = 64;
constexpr uint64_t UcxCost(UcxRecordKind kind, size_t bytes) {
  return kUcxRecordCost + (kind == UcxRecordKind::kBytes ? bytes : 0);
}

}  // namespace fusewire::transport
