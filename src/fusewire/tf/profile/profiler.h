// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Fusewire as one of TensorFlow's profilers: while a profile with host traces is taken, it listens to the process's
// events, and its transfers become a plane of the profile: each receive, send, part and collective, from its begin to
// its end. One profile has those of all servers of the process.
// Home: any thread. Owns: a profile under way. Fails: Start, while another profile is being taken. Beyond a limit,
// events are counted and left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <tsl/profiler/lib/profiler_interface.h>
#include <tsl/profiler/lib/traceme.h>
#include <tsl/profiler/protobuf/profiler_options.pb.h>
#include <tsl/profiler/protobuf/xplane.pb.h>

#include "fusewire/observe/event.h"
#include "fusewire/tf/bridge/compat.h"

namespace fusewire::tf {

// The events of one profile, by the clock of TensorFlow's profiler; a time before the profile is 0.
struct WireRecord {
  int64_t begun_ns = 0, ended_ns = 0;
  std::vector<observe::EventFacts> events;  // in the order of their ends
  uint64_t left_out = 0;
};

constexpr size_t kWireEventsMax = 1 << 20;  // of one profile: some 200 MB

// False: a profile is being taken already.
bool StartWireRecord(size_t events_max = kWireEventsMax);
// Ends the profile, and returns its events. Without a profile: nothing.
WireRecord TakeWireRecord();

// A profile's transfers as a plane of TensorFlow's profiler: lines for each peer, with an event for each transfer.
// Home: none, it is pure functions.
// The viewers show "/host:CPU", known accelerators, and planes with this prefix.
constexpr const char* kWirePlane = "/device:CUSTOM:fusewire";

// Each event has the stats peer, tensor (of a part or a collective: operation), step, queue (the events of the same
// kind and peer that were under way as it began, itself included), wait_us (from its begin until its content arrived),
// land_us (until its end), bytes_in and bytes_out; a failed one has `error`.
void WritePlane(WireRecord record, tensorflow::profiler::XPlane* plane);

class WireProfiler final : public tsl::profiler::ProfilerInterface {
 public:
  // Null: the options want no traces of the host.
  static std::unique_ptr<tsl::profiler::ProfilerInterface> Make(const tensorflow::ProfileOptions& options);
  ~WireProfiler() override;

  TfStatus Start() override;
  TfStatus Stop() override;
  TfStatus CollectData(tensorflow::profiler::XSpace* space) override;

 private:
  bool is_started_ = false;
  WireRecord record_;
};

// Once, when the library is loaded.
void RegisterWireProfiler();

// TensorFlow's own events, for the time that a thread works on the wire: viewers show them beside the kernels, on the
// line of their thread. An event's name is made only while a profile is taken.
//   TraceMe trace([&] { return TraceMeEncode("fusewire ask", {{"peer", peer}, {"tensors", count}}); }, kTraceLevel);
// Home: any thread.
using tsl::profiler::TraceMe;
using tsl::profiler::TraceMeEncode;

constexpr int kTraceLevel = tsl::profiler::TraceMeLevel::kInfo;  // as TensorFlow's larger kernels

}  // namespace fusewire::tf
