// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The options of shared memory.
#pragma once

#include <cstdint>

#include "fusewire/base/clock.h"
#include "fusewire/transport/address.h"

namespace fusewire::transport {

struct ShmOptions {
  // Each direction's; a power of two. Memory is used as far as it is written: a connection that carries little keeps to
  // the first pages.
  uint32_t ring_bytes = 512 * 1024;
  // Pieces from this size on may be lent instead of put into the ring: the receiver copies them from our memory.
  uint32_t lend_bytes_min = 64 * 1024;
  // Whether pieces are taken that way at all, where the system allows it (process_vm_readv).
  bool lend = true;
  // How long a process that connects may take to send its hello.
  int64_t greeting_ns_max = 5 * kSecondNs;
  int backlog = 4096;
  // Null: the system's resolver.
  ResolveNames resolve;
};

}  // namespace fusewire::transport
