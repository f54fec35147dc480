// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The limits of an endpoint, and the default timeouts of its operations.
// Home: none, plain values. Fails: never; docs/p2p.md says what happens to an operation or a peer that
// exceeds a limit.
#pragma once

#include <cstdint>

#include "fusewire/base/clock.h"

namespace fusewire::p2p {

struct Limits {
  // A message up to this size is sent at once, whether a receive waits for it or not; a larger one is offered first.
  uint32_t eager_bytes_max = 32 * 1024;
  // The limit of one peer's unexpected small messages; beyond it small messages are offered too.
  uint64_t unexpected_bytes_max = 256 * 1024;
  // How many offers of one peer may wait for their receives; the others wait at the peer, in order.
  uint32_t offers_max = 1024;
  uint32_t peers_max = 65536;
  uint32_t ops_max = 1u << 20;
  uint32_t regions_max = 65536;
  // Of an operation whose own timeout_ns is 0. kForeverNs: none.
  int64_t timeout_ns = 60 * kSecondNs;
  // How long an operation waits for a peer that is not connected.
  int64_t patience_ns = 10 * kSecondNs;
};

}  // namespace fusewire::p2p
