// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Statistics of Clients and Servers.
// Home: counted at one home each; a snapshot may be taken on any thread. Owns: numbers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fusewire/base/bytes.h"
#include "fusewire/base/metrics.h"
#include "fusewire/reactor/stats.h"

namespace fusewire::pipe {
struct PipeStats;
}  // namespace fusewire::pipe

namespace fusewire::rpc {

// Statistics of one method; written at one home.
struct MethodStats {
  Counter calls, errors, timeouts, cancels, request_bytes, reply_bytes;
  Histogram latency_ns;
  // Adds the counts of `other`; at home of this one.
  void Merge(const MethodStats& other);
};

// By method number; grows when a method is first used.
class MethodTable {
 public:
  MethodStats& At(uint16_t method) {
    std::unique_ptr<MethodStats>& stats = methods_[method];
    if (stats == nullptr) stats = std::make_unique<MethodStats>();
    return *stats;
  }
  const std::map<uint16_t, std::unique_ptr<MethodStats>>& all() const { return methods_; }

 private:
  std::map<uint16_t, std::unique_ptr<MethodStats>> methods_;
};

struct MethodSnapshot {
  uint16_t method = 0;
  std::string name;
  uint64_t calls = 0, errors = 0, timeouts = 0, cancels = 0, request_bytes = 0, reply_bytes = 0;
  HistogramSnapshot latency_ns;
};

struct PeerSnapshot {
  std::string peer;
  std::string wire;  // "tcp", "shm" ...; empty while it is not up
  bool up = false;
  uint64_t connects = 0;
  uint64_t calls_in_flight = 0;
  uint64_t late_replies = 0;
  uint64_t messages_in = 0, messages_out = 0, bytes_in = 0, bytes_out = 0;
  uint64_t credit_stalls = 0, budget_stalls = 0;
  HistogramSnapshot ping_ns;
  std::vector<MethodSnapshot> methods;  // for a client; a server counts methods over all peers
};

struct Snapshot {
  std::vector<PeerSnapshot> peers;
  std::vector<MethodSnapshot> methods;
  std::vector<reactor::Stats> reactors;
  uint64_t receive_budget_used_bytes = 0, receive_budget_peak_bytes = 0, receive_budget_limit_bytes = 0;
  CopyCounts copies;
};

MethodSnapshot Read(uint16_t method, std::string name, const MethodStats& stats);
void ReadInto(const pipe::PipeStats& stats, PeerSnapshot* peer);

}  // namespace fusewire::rpc
