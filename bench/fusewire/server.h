// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "bench/harness/harness.h"
#include "fusewire/rpc/rpc.h"

namespace fusewire::bench {

enum BenchMethod : uint16_t {
  kEcho = 1,         // returns the head
  kSink = 2,         // lands a body of kBulkBytes, and returns an empty reply
  kSegments200 = 3,  // returns 200 segments
};

// The library's defaults, with busy polling if the case requires it.
task::TaskOptions TaskOptionsFor(const Options& options);

// Serves all three methods until it is killed.
void ServeFusewire(const Options& options);

}  // namespace fusewire::bench
