// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The options of TCP.
#pragma once

#include <cstdint>

#include "fusewire/base/clock.h"
#include "fusewire/transport/address.h"

namespace fusewire::transport {

struct TcpOptions {
  // The maximum of unread bytes at the receiver. It bounds the data that a control message waits behind, and limits the
  // bandwidth to this many bytes per round trip. 0: 608 KiB on one host; between hosts the kernel takes more if the
  // path holds more. With 608 KiB, a message of 512 KiB fits, so its sender need not wait for the receiver to read,
  // which may be sending as well.
  int receive_buffer_bytes = 0;
  // The maximum of unsent bytes in the kernel.
  int unsent_bytes_max = 64 * 1024;
  // The kernel closes the connection to a peer that acknowledges nothing for this long.
  int64_t user_timeout_ns = 20 * kSecondNs;
  int backlog = 4096;
  // Null: the system's resolver.
  ResolveNames resolve;
};

}  // namespace fusewire::transport
