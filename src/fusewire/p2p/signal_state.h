// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The state of a Signal: its counter, and the operations that wait for it.
// Home: the endpoint's; the value may be read on any thread. Owns: nothing; the Signal owns it.
#pragma once

#include <atomic>
#include <cstdint>

#include "fusewire/base/list.h"
#include "fusewire/p2p/op.h"

namespace fusewire::p2p {

struct SignalState {
  uint64_t name = 0;
  std::atomic<uint64_t> value{0};
  List<Op> waiting;
};

}  // namespace fusewire::p2p
