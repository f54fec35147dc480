// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The counters of a pipe. Home: counted at the pipe's; any thread may read. Owns: numbers.
#pragma once

#include "fusewire/base/metrics.h"

namespace fusewire::pipe {

struct PipeStats {
  Counter messages_in, messages_out, bytes_in, bytes_out, frames_in, frames_out;
  Counter credit_stalls;  // a message had to wait for the peer's credit
  Counter budget_stalls;  // the peer had to wait for our budget
  Histogram ping_ns;
};

}  // namespace fusewire::pipe
