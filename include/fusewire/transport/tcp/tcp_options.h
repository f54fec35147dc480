// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The options of TCP.
// Home: any, plain values. Owns: nothing. Fails: never.
#ifndef FUSEWIRE_TRANSPORT_TCP_TCP_OPTIONS_H_
#define FUSEWIRE_TRANSPORT_TCP_TCP_OPTIONS_H_

#include <cstdint>

#include "fusewire/base/clock.h"
#include "fusewire/transport/address.h"

namespace fusewire {
namespace transport {

struct TcpOptions {
  // The maximum of unread bytes at the receiver. Together with unsent_bytes_max it bounds the data that a control
  // message waits behind, and limits the bandwidth to this many bytes per round trip. A message of 512 KiB fits, so its
  // sender need not wait for the receiver to read, which may be sending as well. 0: the kernel decides.
  int receive_buffer_bytes = 608 * 1024;
  // The maximum of unsent bytes in the kernel.
  int unsent_bytes_max = 64 * 1024;
  // The kernel closes the connection to a peer that acknowledges nothing for this long.
  int64_t user_timeout_ns = 20 * kSecondNs;
  int backlog = 4096;
  // Null: the system's resolver.
  ResolveNames resolve;
};

}  // namespace transport
}  // namespace fusewire

#endif  // FUSEWIRE_TRANSPORT_TCP_TCP_OPTIONS_H_
