// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The options of TCP.
// Home: any, plain values. Owns: nothing. Fails: never.
#ifndef FUSEWIRE_TRANSPORT_TCP_TCP_OPTIONS_H_
#define FUSEWIRE_TRANSPORT_TCP_TCP_OPTIONS_H_

#include <cstdint>

#include "fusewire/base/clock.h"
#include "fusewire/transport/drive.h"
#include "fusewire/transport/resolve_names.h"

namespace fusewire {
namespace transport {

struct TcpOptions {
  // How many bytes may wait unread at the receiver. Together with unsent_bytes_max it bounds what a control message
  // waits behind, and bandwidth to this much per round trip. A message of 512 KiB fits: whoever sends one need not wait
  // until the other reads, who may be sending too. 0: the kernel decides.
  int receive_buffer_bytes = 608 * 1024;
  // How many bytes may wait in the kernel before they are sent.
  int unsent_bytes_max = 64 * 1024;
  // The kernel gives up a peer that acknowledges nothing for this long.
  int64_t user_timeout_ns = 20 * kSecondNs;
  int backlog = 4096;
  // Null: the system's resolver.
  ResolveNames resolve;
  // What drives established connections. Null, and where it cannot: epoll.
  DriveSocket drive = nullptr;
};

}  // namespace transport
}  // namespace fusewire

#endif  // FUSEWIRE_TRANSPORT_TCP_TCP_OPTIONS_H_
