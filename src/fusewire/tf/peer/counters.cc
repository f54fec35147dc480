// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/peer/counters.h"

#include "fusewire/observe/event.h"

namespace fusewire::tf {
namespace {

const std::atomic<uint64_t>* BegunOf(observe::Kind kind) { return &observe::events_begun[static_cast<size_t>(kind)]; }

}  // namespace

Counters& GlobalCounters() {
  static auto* counters = new Counters;
  return *counters;
}

const std::vector<CounterAbout>& AllCounters() {
  const Counters& counters = GlobalCounters();
  static const auto* all = new std::vector<CounterAbout>{
      {"calls_out", "Calls to peers over our wire.", false, &counters.calls_out},
      {"calls_in", "Calls of peers over our wire.", false, &counters.calls_in},
      {"parts_out", "Messages that answer requests for tensors.", false, &counters.parts_out},
      {"asked", "Tensors that peers have requested.", false, &counters.asked},
      {"asked_late", "Requested tensors that were ready when the request came.", false, &counters.asked_late},
      {"recvs", "Tensors received over our wire.", false, &counters.recvs},
      {"recv_batches", "Requests for tensors.", false, &counters.recv_batches},
      {"control_edges", "Received tensors that carry nothing.", false, &counters.control_edges},
      {"tensor_bytes", "Bytes of received tensors, without the small ones.", false, &counters.tensor_bytes},
      {"run_graphs", "Graphs that this process has let peers run.", false, &counters.run_graphs},
      {"fallback_grpc_calls", "Calls over gRPC, because the peer has no plug-in.", false,
       &counters.fallback_grpc_calls},
      {"fused_recvs", "Fused receives that have run.", false, &counters.fused_recvs},
      {"grpc_recvs", "Receives of one tensor over gRPC.", false, &counters.grpc_recvs},
      {"grpc_fused_recvs", "Fused receives over gRPC.", false, &counters.grpc_fused_recvs},
      {"star_runs_out", "Parts of graphs that parameter servers have run for this process.", false,
       BegunOf(observe::Kind::kRunOut)},
      {"star_runs_in", "Parts of graphs that this process has run for workers.", false, BegunOf(observe::Kind::kRunIn)},
      {"star_parts", "Parts of graphs that this process holds.", true, &counters.star_parts},
      {"collectives", "Collective operations over our wire.", false, BegunOf(observe::Kind::kCollective)},
      {"servers", "Servers in this process.", true, &counters.servers}};
  return *all;
}

}  // namespace fusewire::tf
