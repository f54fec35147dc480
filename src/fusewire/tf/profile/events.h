// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The transfers of this process while TensorFlow's profiler takes a profile: each receive, send, part and collective,
// from its begin to its end. Without a profile, each costs one relaxed load.
// Home: any thread. Owns: the events, until they are taken. Fails: beyond a limit, events are counted and left out.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fusewire::tf {

// What one event is about; each kind has lines of its own for each peer.
enum class WireKind : uint8_t {
  kReceive,     // a tensor from the peer
  kSend,        // a tensor that the peer has requested
  kCallPart,    // a part of a graph that the peer runs for this task
  kServePart,   // a part that this task runs for the peer
  kCollective,  // an operation of a group
};

struct WireEvent {
  WireKind kind = WireKind::kReceive;
  std::string peer;  // "ps:0"; of a collective: its group
  std::string name;  // of the tensor, the part, or the operation
  int64_t step = 0;
  uint64_t bytes_in = 0, bytes_out = 0;
  // As of WireNow(). 0: it began, or its content arrived, before the profile did.
  int64_t begun_ns = 0, arrived_ns = 0, ended_ns = 0;
  std::string error;  // empty: it has succeeded
};

// The events of one profile.
struct WireRecord {
  int64_t begun_ns = 0, ended_ns = 0;
  std::vector<WireEvent> events;  // in the order of their ends
  uint64_t left_out = 0;
};

constexpr size_t kWireEventsMax = 1 << 20;  // of one profile: some 200 MB

inline std::atomic<bool> records_wire{false};

// Any thread. Whether a profile is being taken.
inline bool RecordsWire() { return records_wire.load(std::memory_order_relaxed); }
// The clock of TensorFlow's profiler.
int64_t WireClockNs();
// Any thread. 0: no profile is being taken.
inline int64_t WireNow() { return RecordsWire() ? WireClockNs() : 0; }
// Any thread, while RecordsWire(); an event that comes too late is dropped.
void RecordWire(WireEvent event);

// False: a profile is being taken already.
bool StartWireRecord(size_t events_max = kWireEventsMax);
// Ends the profile, and returns its events. Without a profile: nothing.
WireRecord TakeWireRecord();

}  // namespace fusewire::tf
