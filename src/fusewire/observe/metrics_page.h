// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// /metrics: the numbers of a process in Prometheus' text format.
// Home: the port's thread. The number of series is bounded: one for each kind of operation
// with each peer, and none for a tensor.
#pragma once

#include <string>

#include "fusewire/observe/facts.h"
#include "fusewire/observe/recorder.h"

namespace fusewire::observe {

std::string MetricsText(Recorder& recorder, const Facts& facts);

}  // namespace fusewire::observe
