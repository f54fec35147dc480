// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The names under which the operations of this plug-in are recorded (observe/event.h): made once for each key, part or
// method, and kept beside it. Also the counters of the plug-in in this process, over all its servers.
// Home: any thread, pure functions but for the recorder's table of names. Owns: the counters, until the process ends.
// Fails: never; without a recorder, and for a key that can't be read, all marks are the same.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include <absl/strings/string_view.h>
#include <tensorflow/core/framework/rendezvous.h>
#include "fusewire/observe/recorder.h"

namespace fusewire::tf {

struct Mark {
  uint32_t tag = 0;
  uint64_t hash = 0;  // the same at both ends
};

// `key` is without the frame: it ends with ';'.
Mark MarkReceive(absl::string_view key);
Mark MarkProvide(absl::string_view key, const tensorflow::Rendezvous::ParsedKey& parsed);
// One operation of a step, at either end. 0 is none.
uint64_t FlowOf(const Mark& mark, int64_t step);
// A run of a part: the number that the task which runs it has given to the part.
Mark MarkRun(observe::Kind kind, absl::string_view task, absl::string_view peer, absl::string_view name,
             absl::string_view runner, uint64_t part);

struct Counters {
  std::atomic<uint64_t> calls_out{0};  // of every method, on our wire
  std::atomic<uint64_t> calls_in{0};
  std::atomic<uint64_t> parts_out{0};      // messages that answer a receive
  std::atomic<uint64_t> asked{0};          // tensors that peers have requested
  std::atomic<uint64_t> asked_late{0};     // of these, those that were ready when the request came
  std::atomic<uint64_t> recvs{0};          // tensors that came over our wire
  std::atomic<uint64_t> recv_batches{0};   // requests for them
  std::atomic<uint64_t> control_edges{0};  // of these tensors, those that carry nothing
  std::atomic<uint64_t> tensor_bytes{0};   // in segments of their own
  std::atomic<uint64_t> run_graphs{0};
  std::atomic<uint64_t> fallback_grpc_calls{0};  // because the peer speaks gRPC only
  std::atomic<uint64_t> fused_recvs{0};          // fused operations that ran
  std::atomic<uint64_t> grpc_recvs{0};           // calls of RecvTensor for one tensor
  std::atomic<uint64_t> grpc_fused_recvs{0};     // calls of RecvTensor for all tensors of a fused operation
  std::atomic<uint64_t> calls_repeated{0};       // because their connection was lost
  std::atomic<uint64_t> snapshots_written{0};
  std::atomic<uint64_t> snapshot_bytes{0};
  std::atomic<uint64_t> snapshots_failed{0};
  std::atomic<uint64_t> snapshots_restored{0};
  std::atomic<uint64_t> star_parts{0};  // parts held now
  std::atomic<uint64_t> servers{0};

  void Add(std::atomic<uint64_t> Counters::*counter, uint64_t amount = 1) {
    (this->*counter).fetch_add(amount, std::memory_order_relaxed);
  }
};

// Lives until the process ends.
Counters& GlobalCounters();

// Each counter, and each count of observe::Event, for a reader that shows all of them.
struct CounterAbout {
  const char* name;
  const char* help;
  bool is_gauge;
  const std::atomic<uint64_t>* counter;
};
const std::vector<CounterAbout>& AllCounters();

}  // namespace fusewire::tf
