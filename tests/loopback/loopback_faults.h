// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The properties and faults of a loopback network.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fusewire/base/clock.h"

namespace fusewire::transport {

// The path from one host to another. A healthy network has all of the first two groups.
struct LoopbackFaults {
  // The latency of each chunk, which never overtakes the previous one.
  int64_t latency_ns_min = 20 * kMicrosecondNs;
  int64_t latency_ns_max = 60 * kMicrosecondNs;
  uint64_t bytes_per_second = 0;  // 0: no limit
  size_t send_buffer_bytes = 256 * 1024;
  size_t receive_buffer_bytes = 512 * 1024;
  int64_t dial_delay_ns_max = 0;
  // A sender that receives no acknowledgement for this long closes its connection.
  int64_t user_timeout_ns = 20 * kSecondNs;

  bool split = false;             // writes, chunks and reads are split at random, down to one byte
  double late_answer_chance = 0;  // a Write is answered later, and its memory is read only then

  bool clogged = false;  // nothing arrives until it is false again; then everything arrives
  bool lost = false;     // bytes that should arrive now are lost for good: their connection never recovers
  double refuse_chance = 0;
  // Chances per chunk: the connection is reset; a bit is flipped; the chunk is lost, or duplicated.
  double cut_chance = 0;
  double corrupt_chance = 0;
  double drop_chance = 0;
  double duplicate_chance = 0;
};

}  // namespace fusewire::transport
