// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Fusewire as one of TensorFlow's profilers: while a profile with host traces is taken, its transfers are recorded, and
// become a plane of it. They are recorded by the process, not by the server: one profile has those of all servers here.
// Home: any thread. Owns: a profile under way. Fails: Start, while another profile is being taken.
#pragma once

#include <memory>

#include <tsl/profiler/lib/profiler_interface.h>
#include <tsl/profiler/protobuf/profiler_options.pb.h>
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/profile/events.h"

namespace fusewire::tf {

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
