// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What an endpoint takes on at the most, and how long its operations wait where they say nothing else.
// Home: none, plain values. Owns: nothing. Fails: never; who exceeds a limit hears of it as docs/p2p.md says.
#ifndef FUSEWIRE_P2P_LIMITS_H_
#define FUSEWIRE_P2P_LIMITS_H_

#include <cstdint>

#include "fusewire/base/clock.h"

namespace fusewire {
namespace p2p {

struct Limits {
  // A message up to this travels at once, whether a receive waits for it or not; a larger one is offered first.
  uint32_t eager_bytes_max = 8 * 1024;
  // Of one peer's small messages that no receive has asked for yet; beyond it they are offered too.
  uint64_t unexpected_bytes_max = 256 * 1024;
  // Large messages of one peer that may wait for their receives; the others wait behind them, in order.
  uint32_t offers_max = 1024;
  uint32_t peers_max = 65536;
  uint32_t ops_max = 1u << 20;
  uint32_t regions_max = 65536;
  // Of an operation that says nothing else. kForeverNs: none.
  int64_t timeout_ns = 60 * kSecondNs;
  // How long an operation waits for a peer that is not there.
  int64_t patience_ns = 10 * kSecondNs;
};

}  // namespace p2p
}  // namespace fusewire

#endif  // FUSEWIRE_P2P_LIMITS_H_
