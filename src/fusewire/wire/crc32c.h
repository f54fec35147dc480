// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The two implementations of wire::Crc32c(), separate so that a test can compare them.
// Home: none, pure functions. Owns: nothing. Fails: never.
#ifndef FUSEWIRE_WIRE_CRC32C_H_
#define FUSEWIRE_WIRE_CRC32C_H_

#include <cstdint>

#include "fusewire/base/bytes.h"

namespace fusewire {
namespace wire {

// For every machine: eight bytes at a time, with tables.
uint32_t Crc32cByTable(ConstBytes bytes, uint32_t seed);

// Only where HasCrc32cInstruction().
bool HasCrc32cInstruction();
uint32_t Crc32cByInstruction(ConstBytes bytes, uint32_t seed);

}  // namespace wire
}  // namespace fusewire

#endif  // FUSEWIRE_WIRE_CRC32C_H_
