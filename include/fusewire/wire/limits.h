// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The limits of a receiver of frames.
// Home: none, plain values. Fails: never; DecodeHeader refuses what exceeds them.
#pragma once

#include <cstdint>

namespace fusewire::wire {

// The limits of a receiver. Every length is checked against them before memory is allocated.
struct Limits {
  uint32_t meta_bytes_max = 1u << 20;
  uint16_t segments_max = 65535;
  uint64_t body_bytes_max = uint64_t{1} << 40;
  uint32_t chunk_bytes_max = 256u << 10;  // the pipe's chunk, agreed in the hello
};

}  // namespace fusewire::wire
