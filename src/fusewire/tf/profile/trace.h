// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// TensorFlow's own events, for the time that a thread works on the wire: viewers show them beside the kernels, on the
// line of their thread. An event's name is made only while a profile is taken.
//   TraceMe trace([&] { return TraceMeEncode("fusewire ask", {{"peer", peer}, {"tensors", count}}); }, kTraceLevel);
// Home: any thread.
#pragma once

#include <tsl/profiler/lib/traceme.h>

namespace fusewire::tf {

using tsl::profiler::TraceMe;
using tsl::profiler::TraceMeEncode;

constexpr int kTraceLevel = tsl::profiler::TraceMeLevel::kInfo;  // as TensorFlow's larger kernels

}  // namespace fusewire::tf
