// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/harness/harness.h"

namespace fusewire::bench {

// Serves both methods of bench/grpc/message.h with one completion queue and one thread of ours, until it is killed.
void ServeGrpc(const Options& options);

}  // namespace fusewire::bench
