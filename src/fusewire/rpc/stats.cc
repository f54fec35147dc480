// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/rpc/stats.h"

#include <utility>

#include "fusewire/pipe/pipe.h"

namespace fusewire::rpc {

void MethodStats::Merge(const MethodStats& other) {
  calls.Add(other.calls.Read());
  errors.Add(other.errors.Read());
  timeouts.Add(other.timeouts.Read());
  cancels.Add(other.cancels.Read());
  request_bytes.Add(other.request_bytes.Read());
  reply_bytes.Add(other.reply_bytes.Read());
  latency_ns.Merge(other.latency_ns);
}

MethodSnapshot Read(uint16_t method, std::string name, const MethodStats& stats) {
  MethodSnapshot snapshot;
  snapshot.method = method;
  snapshot.name = std::move(name);
  snapshot.calls = stats.calls.Read();
  snapshot.errors = stats.errors.Read();
  snapshot.timeouts = stats.timeouts.Read();
  snapshot.cancels = stats.cancels.Read();
  snapshot.request_bytes = stats.request_bytes.Read();
  snapshot.reply_bytes = stats.reply_bytes.Read();
  snapshot.latency_ns = stats.latency_ns.Read();
  return snapshot;
}

void ReadInto(const pipe::PipeStats& stats, PeerSnapshot* peer) {
  peer->messages_in += stats.messages_in.Read();
  peer->messages_out += stats.messages_out.Read();
  peer->bytes_in += stats.bytes_in.Read();
  peer->bytes_out += stats.bytes_out.Read();
  peer->credit_stalls += stats.credit_stalls.Read();
  peer->budget_stalls += stats.budget_stalls.Read();
  peer->ping_ns = stats.ping_ns.Read();
}

}  // namespace fusewire::rpc
