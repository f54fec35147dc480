// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/profile/profiler.h"

#include <utility>

#include <absl/strings/str_cat.h>
#include <tsl/profiler/lib/profiler_factory.h>
#include "fusewire/tf/profile/planes.h"

namespace fusewire::tf {

std::unique_ptr<tsl::profiler::ProfilerInterface> WireProfiler::Make(const tensorflow::ProfileOptions& options) {
  if (options.host_tracer_level() == 0) return nullptr;
  return std::make_unique<WireProfiler>();
}

// A profile that TensorFlow gives up ends here.
WireProfiler::~WireProfiler() { (void)Stop(); }

TfStatus WireProfiler::Start() {
  if (!StartWireRecord())
    return absl::UnavailableError(
        "fusewire: another profile is being taken in this process; next: wait for its end; see "
        "docs/profiling.md#profiling");
  is_started_ = true;
  return TfStatus();
}

TfStatus WireProfiler::Stop() {
  if (std::exchange(is_started_, false)) record_ = TakeWireRecord();
  return TfStatus();
}

TfStatus WireProfiler::CollectData(tensorflow::profiler::XSpace* space) {
  WireRecord record = std::exchange(record_, WireRecord());
  if (record.left_out > 0) {
    space->add_warnings(absl::StrCat("fusewire: the profile has the first ", record.events.size(),
                                     " transfers, and lacks the ", record.left_out,
                                     " after them: take a shorter profile"));
  }
  if (!record.events.empty()) WritePlane(std::move(record), space->add_planes());
  return TfStatus();
}

void RegisterWireProfiler() { tsl::profiler::RegisterProfilerFactory(WireProfiler::Make); }

}  // namespace fusewire::tf
