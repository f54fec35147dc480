// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The options of a Client.
// Home: none, plain values but for on_up and on_down.
#pragma once

#include <cstdint>
#include <functional>

#include "fusewire/base/clock.h"
#include "fusewire/base/status.h"

namespace fusewire::rpc {

struct ClientOptions {
  // How long a call that cannot be sent waits for the peer to appear. 0: it fails with the first failed attempt.
  int64_t patience_ns = 10 * kSecondNs;
  uint32_t calls_in_flight_max = 65536;
  // The peer's incarnation, if the caller knows it: a peer of another one at this address (an old port may have a new
  // owner) is turned away, and calls end with kRefused. 0: any incarnation.
  uint64_t incarnation = 0;
  // At home: there is a connection, over this wire: "tcp", "shm" ...
  std::function<void(const char* wire)> on_up;
  // At home, before the calls in flight end: a connection is lost, also while no call is in flight, or could not be
  // made. Not after Close. It must not destroy the client.
  std::function<void(const Status& why, bool was_up)> on_down;
};

}  // namespace fusewire::rpc
