// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The control messages of two processes over their unix socket to share memory: one packet each.
//   dialler   kKnock    a nonce
//   listener  kKnock    its nonce, and the dialler's as the answer
//   dialler   kHello    the listener's nonce as the answer; how large the rings are, its bit at its doorbell; a word to
//                       try process_vm_readv with
//   listener  kWelcome  a word to try it with
//   listener  kBell     its bit at its doorbell
// Descriptors travel beside a message: with kHello the segment and a doorbell, with kBell a doorbell. See meeting.h.
// Home: none, plain values. Fails: Decode says which field is wrong.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"

namespace fusewire::transport {

enum class ShmControlKind : uint16_t { kHello = 1, kWelcome = 2, kBell = 3, kKnock = 4 };

struct ShmControlMessage {
  uint32_t magic = 0x6d736677;  // "wfsm"
  uint16_t version = 5;
  ShmControlKind kind = ShmControlKind::kHello;
  uint32_t ring_bytes = 0;
  uint32_t bit = 0;
  uint64_t probe_address = 0;
  uint64_t probe_word = 0;
  uint64_t nonce = 0;
  uint64_t answer = 0;
};
constexpr size_t kShmControlBytes = 48;
static_assert(sizeof(ShmControlMessage) == kShmControlBytes,
              "both ends are one machine's, but perhaps not one build's");
static_assert(offsetof(ShmControlMessage, kind) == 6);
static_assert(offsetof(ShmControlMessage, ring_bytes) == 8);
static_assert(offsetof(ShmControlMessage, bit) == 12);
static_assert(offsetof(ShmControlMessage, probe_address) == 16);
static_assert(offsetof(ShmControlMessage, probe_word) == 24);
static_assert(offsetof(ShmControlMessage, nonce) == 32);
static_assert(offsetof(ShmControlMessage, answer) == 40);

// How many descriptors travel with a message of this kind.
constexpr size_t FilesOf(ShmControlKind kind) {
  return kind == ShmControlKind::kHello ? 4 : kind == ShmControlKind::kBell ? 3 : 0;
}
constexpr size_t kShmControlFilesMax = FilesOf(ShmControlKind::kHello);

std::array<uint8_t, kShmControlBytes> EncodeControl(const ShmControlMessage& message);
// kCorrupt: the packet is something else than a message of this kind with its descriptors.
Result<ShmControlMessage> DecodeControl(ConstBytes packet, size_t file_count, ShmControlKind expected);

}  // namespace fusewire::transport
