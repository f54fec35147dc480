// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What a process says where the ranks of a host gather: which of them it is, number 0 being the host. One packet.
// Home: none, plain values. Fails: Decode says what is wrong.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"

namespace fusewire::transport {

struct Knock {
  uint64_t magic = 0x326f6e6b6b776673;  // "sfwkkno2"
  uint32_t number = 0;
  uint32_t count = 0;
  uint64_t nonce = 0;
  uint64_t answer = 0;  // the other's nonce; 0 in the first knock
};
constexpr size_t kKnockBytes = 32;
static_assert(sizeof(Knock) == kKnockBytes, "ranks of one host may run different builds");
static_assert(offsetof(Knock, number) == 8);
static_assert(offsetof(Knock, count) == 12);
static_assert(offsetof(Knock, nonce) == 16);
static_assert(offsetof(Knock, answer) == 24);

std::array<uint8_t, kKnockBytes> EncodeKnock(const Knock& knock);
// kCorrupt: the packet is not the knock of one of `count` processes.
Result<Knock> DecodeKnock(ConstBytes packet, uint32_t count);

}  // namespace fusewire::transport
