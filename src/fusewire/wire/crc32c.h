// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The two implementations of wire::Crc32c(), separate so that a test can compare them.
#pragma once

#include <cstdint>

#include "fusewire/base/bytes.h"

namespace fusewire::wire {

// For every machine: eight bytes at a time, with tables.
uint32_t Crc32cByTable(ConstBytes bytes, uint32_t seed);

// Only where HasCrc32cInstruction().
bool HasCrc32cInstruction();
uint32_t Crc32cByInstruction(ConstBytes bytes, uint32_t seed);

}  // namespace fusewire::wire
