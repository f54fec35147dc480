// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/peer/counters.h"

namespace fusewire {
namespace tf {

Counters& GlobalCounters() {
  static auto* counters = new Counters;
  return *counters;
}

}  // namespace tf
}  // namespace fusewire
