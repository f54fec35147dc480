// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The common part of the reading ends of all transports.
// Home: each thread has a look_ahead of its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fusewire/base/bytes.h"

namespace fusewire::transport {

// A connection gives way to the others of its reactor after this much.
constexpr size_t kReadBytesPerTurn = 1 << 20;
// Large enough for a hundred small messages; under kCopyBytesMax, so that no large piece of payload is ever copied out.
constexpr size_t kLookAheadMax = kCopyBytesMax - 1;

// Where bytes are looked at: never in memory that the peer could change under our eyes. They are gone when the callback
// returns, so one buffer a thread serves all connections.
inline thread_local uint8_t look_ahead[kLookAheadMax];

}  // namespace fusewire::transport
