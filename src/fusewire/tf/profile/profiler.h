// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Fusewire as one of TensorFlow's profilers: while a profile with host traces is taken, its transfers are recorded, and
// become a plane of it. They are recorded by the process, not by the server: one profile has those of all servers here.
// Home: any thread. Owns: a profile under way. Fails: Start, while another profile is being taken.
#pragma once

#include <memory>

#include <tsl/profiler/lib/profiler_interface.h>
#include <tsl/profiler/protobuf/profiler_options.pb.h>
#include <tsl/profiler/protobuf/xplane.pb.h>

#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/profile/events.h"

namespace fusewire::tf {

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

}  // namespace fusewire::tf
