// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/profile/events.h"

#include <utility>

#include <tensorflow/core/platform/env_time.h>
#include "fusewire/base/mutex.h"

namespace fusewire::tf {
namespace {

struct Recorder {
  Mutex mutex;
  bool is_on FUSEWIRE_GUARDED_BY(mutex) = false;
  size_t events_max FUSEWIRE_GUARDED_BY(mutex) = 0;
  WireRecord record FUSEWIRE_GUARDED_BY(mutex);
};

// Until the process ends: events may come at any time.
Recorder& TheRecorder() {
  static auto* recorder = new Recorder;
  return *recorder;
}

}  // namespace

int64_t WireClockNs() { return static_cast<int64_t>(tensorflow::EnvTime::NowNanos()); }

void RecordWire(WireEvent event) {
  Recorder& recorder = TheRecorder();
  MutexLock lock(recorder.mutex);
  if (!recorder.is_on) return;
  if (recorder.record.events.size() >= recorder.events_max) {
    ++recorder.record.left_out;
    return;
  }
  recorder.record.events.push_back(std::move(event));
}

bool StartWireRecord(size_t events_max) {
  Recorder& recorder = TheRecorder();
  MutexLock lock(recorder.mutex);
  if (recorder.is_on) return false;
  recorder.is_on = true;
  recorder.events_max = events_max;
  recorder.record = WireRecord();
  recorder.record.begun_ns = WireClockNs();
  records_wire.store(true, std::memory_order_relaxed);
  return true;
}

WireRecord TakeWireRecord() {
  Recorder& recorder = TheRecorder();
  MutexLock lock(recorder.mutex);
  if (!recorder.is_on) return WireRecord();
  records_wire.store(false, std::memory_order_relaxed);
  recorder.is_on = false;
  recorder.record.ended_ns = WireClockNs();
  return std::exchange(recorder.record, WireRecord());
}

}  // namespace fusewire::tf
