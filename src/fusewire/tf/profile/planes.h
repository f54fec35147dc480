// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A profile's transfers as a plane of TensorFlow's profiler: lines for each peer, with an event for each transfer.
// Home: none, it is pure functions.
#pragma once

#include <tsl/profiler/protobuf/xplane.pb.h>
#include "fusewire/tf/profile/events.h"

namespace fusewire::tf {

// The viewers show "/host:CPU", known accelerators, and planes with this prefix.
constexpr const char* kWirePlane = "/device:CUSTOM:fusewire";

// Each event has the stats peer, tensor (of a part or a collective: operation), step, queue (the events of the same
// kind and peer that were under way as it began, itself included), wait_us (from its begin until its content arrived),
// land_us (until its end), bytes_in and bytes_out; a failed one has `error`.
void WritePlane(WireRecord record, tensorflow::profiler::XPlane* plane);

}  // namespace fusewire::tf
