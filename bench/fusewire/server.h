// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#ifndef FUSEWIRE_BENCH_FUSEWIRE_SERVER_H_
#define FUSEWIRE_BENCH_FUSEWIRE_SERVER_H_

#include <cstdint>

#include "bench/harness/harness.h"
#include "fusewire/rpc/rpc.h"

namespace fusewire::bench {

enum BenchMethod : uint16_t {
  kEcho = 1,         // the head comes back
  kSink = 2,         // a body of kBulkBytes lands, an empty answer says so
  kSegments200 = 3,  // 200 segments come back
};

// The library's defaults, but for busy polling where the case asks for it.
task::TaskOptions TaskOptionsFor(const Options& options);

// Serves all three methods until it is killed.
void ServeFusewire(const Options& options);

}  // namespace fusewire::bench

#endif  // FUSEWIRE_BENCH_FUSEWIRE_SERVER_H_
