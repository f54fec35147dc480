// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/peer/counters.h"

namespace fusewire::tf {

Counters& GlobalCounters() {
  static auto* counters = new Counters;
  return *counters;
}

const std::vector<CounterAbout>& AllCounters() {
  static const auto* all = new std::vector<CounterAbout>{
      {"calls_out", "Calls to peers over our wire.", false, &Counters::calls_out},
      {"calls_in", "Calls of peers over our wire.", false, &Counters::calls_in},
      {"parts_out", "Messages that answer requests for tensors.", false, &Counters::parts_out},
      {"asked", "Tensors that peers have requested.", false, &Counters::asked},
      {"asked_late", "Requested tensors that were ready when the request came.", false, &Counters::asked_late},
      {"recvs", "Tensors received over our wire.", false, &Counters::recvs},
      {"recv_batches", "Requests for tensors.", false, &Counters::recv_batches},
      {"control_edges", "Received tensors that carry nothing.", false, &Counters::control_edges},
      {"tensor_bytes", "Bytes of received tensors, without the small ones.", false, &Counters::tensor_bytes},
      {"run_graphs", "Graphs that this process has let peers run.", false, &Counters::run_graphs},
      {"fallback_grpc_calls", "Calls over gRPC, because the peer has no plug-in.", false,
       &Counters::fallback_grpc_calls},
      {"fused_recvs", "Fused receives that have run.", false, &Counters::fused_recvs},
      {"grpc_recvs", "Receives of one tensor over gRPC.", false, &Counters::grpc_recvs},
      {"grpc_fused_recvs", "Fused receives over gRPC.", false, &Counters::grpc_fused_recvs},
      {"star_runs_out", "Parts of graphs that parameter servers have run for this process.", false,
       &Counters::star_runs_out},
      {"star_runs_in", "Parts of graphs that this process has run for workers.", false, &Counters::star_runs_in},
      {"star_parts", "Parts of graphs that this process holds.", true, &Counters::star_parts},
      {"collectives", "Collective operations over our wire.", false, &Counters::collectives},
      {"servers", "Servers in this process.", true, &Counters::servers}};
  return *all;
}

}  // namespace fusewire::tf
