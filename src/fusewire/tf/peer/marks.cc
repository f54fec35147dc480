// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/peer/marks.h"

#include <absl/strings/str_cat.h>
#include <tensorflow/core/platform/fingerprint.h>
#include "fusewire/observe/event.h"
#include "fusewire/tf/bridge/names.h"

namespace fusewire::tf {
namespace {

// The hash is not 0, which means none.
uint64_t HashOf(absl::string_view text) { return tensorflow::Fingerprint64({text.data(), text.size()}) | 1; }

Mark Of(observe::Kind kind, absl::string_view key, const tensorflow::Rendezvous::ParsedKey& parsed) {
  const std::string source = ShortTask({parsed.src_device.data(), parsed.src_device.size()});
  const std::string target = ShortTask({parsed.dst_device.data(), parsed.dst_device.size()});
  const absl::string_view edge = ShortEdge({parsed.edge_name.data(), parsed.edge_name.size()});
  const bool is_target = kind == observe::Kind::kReceive;
  Mark mark;
  mark.tag =
      observe::FindTag(kind, is_target ? target : source, is_target ? source : target, {edge.data(), edge.size()});
  mark.hash = HashOf(key);
  return mark;
}

const std::atomic<uint64_t>* BegunOf(observe::Kind kind) { return &observe::events_begun[static_cast<size_t>(kind)]; }

}  // namespace

Mark MarkReceive(absl::string_view key) {
  if (observe::TheRecorder() == nullptr) return Mark();
  tensorflow::Rendezvous::ParsedKey parsed;
  if (!tensorflow::Rendezvous::ParseKey(absl::StrCat(key, "0:0"), &parsed).ok()) return Mark();
  return Of(observe::Kind::kReceive, key, parsed);
}

Mark MarkProvide(absl::string_view key, const tensorflow::Rendezvous::ParsedKey& parsed) {
  if (observe::TheRecorder() == nullptr) return Mark();
  return Of(observe::Kind::kProvide, key, parsed);
}

uint64_t FlowOf(const Mark& mark, int64_t step) {
  if (mark.hash == 0) return 0;
  // SplitMix64's end: neighbouring steps have nothing in common.
  uint64_t mixed = mark.hash + static_cast<uint64_t>(step) * 0x9e3779b97f4a7c15ULL;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
  return (mixed ^ (mixed >> 31)) | 1;
}

Mark MarkRun(observe::Kind kind, absl::string_view task, absl::string_view peer, absl::string_view name,
             absl::string_view runner, uint64_t part) {
  Mark mark;
  if (observe::TheRecorder() == nullptr) return mark;
  mark.tag = observe::FindTag(kind, {task.data(), task.size()}, {peer.data(), peer.size()}, {name.data(), name.size()});
  mark.hash = HashOf(absl::StrCat(runner, " part ", part));
  return mark;
}

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
      {"calls_repeated", "Calls of parts that were made again after a lost connection.", false,
       &counters.calls_repeated},
      {"snapshots_written", "Snapshots of parameter servers that were written.", false, &counters.snapshots_written},
      {"snapshot_bytes", "Bytes of snapshots that were written.", false, &counters.snapshot_bytes},
      {"snapshots_failed", "Snapshots that could not be written.", false, &counters.snapshots_failed},
      {"snapshots_restored", "Parameter servers that have started with a snapshot.", false,
       &counters.snapshots_restored},
      {"star_runs_out", "Parts of graphs that parameter servers have run for this process.", false,
       BegunOf(observe::Kind::kRunOut)},
      {"star_runs_in", "Parts of graphs that this process has run for workers.", false, BegunOf(observe::Kind::kRunIn)},
      {"star_parts", "Parts of graphs that this process holds.", true, &counters.star_parts},
      {"collectives", "Collective operations over our wire.", false, BegunOf(observe::Kind::kCollective)},
      {"servers", "Servers in this process.", true, &counters.servers}};
  return *all;
}

}  // namespace fusewire::tf
