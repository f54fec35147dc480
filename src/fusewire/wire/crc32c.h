// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The two ways to a CRC-32C behind wire::Crc32c(), apart so that a test can hold them against each other.
// Home: none, pure functions. Owns: nothing. Fails: never.
#ifndef FUSEWIRE_WIRE_CRC32C_H_
#define FUSEWIRE_WIRE_CRC32C_H_

#include <cstdint>

#include "fusewire/base/bytes.h"

namespace fusewire {
namespace wire {

// On every machine: eight bytes at a time from tables.
uint32_t Crc32cByTable(ConstBytes bytes, uint32_t seed);

// Only where HasCrc32cInstruction().
bool HasCrc32cInstruction();
uint32_t Crc32cByInstruction(ConstBytes bytes, uint32_t seed);

}  // namespace wire
}  // namespace fusewire

#endif  // FUSEWIRE_WIRE_CRC32C_H_
