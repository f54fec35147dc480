// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/rpc/stats.h"

#include <sstream>
#include <utility>

#include "fusewire/pipe/pipe.h"

namespace fusewire::rpc {
namespace {

void Line(std::ostringstream* out, const std::string& who, const char* what, uint64_t value) {
  *out << who << " " << what << " " << value << "\n";
}

void Lines(std::ostringstream* out, const std::string& who, const char* what, const HistogramSnapshot& histogram) {
  if (histogram.count == 0) return;
  std::string name = who + " " + what;
  Line(out, name, "count", histogram.count);
  Line(out, name, "p50", histogram.p50);
  Line(out, name, "p99", histogram.p99);
  Line(out, name, "p999", histogram.p999);
  Line(out, name, "max", histogram.max);
}

void Lines(std::ostringstream* out, const std::string& before, const MethodSnapshot& method) {
  std::string who = before + "method " + (method.name.empty() ? std::to_string(method.method) : method.name);
  Line(out, who, "calls", method.calls);
  Line(out, who, "errors", method.errors);
  Line(out, who, "timeouts", method.timeouts);
  Line(out, who, "cancels", method.cancels);
  Line(out, who, "request_bytes", method.request_bytes);
  Line(out, who, "reply_bytes", method.reply_bytes);
  Lines(out, who, "latency_ns", method.latency_ns);
}

}  // namespace

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

std::string Snapshot::ToText() const {
  std::ostringstream out;
  for (const PeerSnapshot& peer : peers) {
    std::string who = "peer " + peer.peer;
    Line(&out, who, "up", peer.up ? 1 : 0);
    if (!peer.wire.empty()) out << who << " wire " << peer.wire << "\n";
    Line(&out, who, "connects", peer.connects);
    Line(&out, who, "calls_in_flight", peer.calls_in_flight);
    Line(&out, who, "late_replies", peer.late_replies);
    Line(&out, who, "messages_in", peer.messages_in);
    Line(&out, who, "messages_out", peer.messages_out);
    Line(&out, who, "bytes_in", peer.bytes_in);
    Line(&out, who, "bytes_out", peer.bytes_out);
    Line(&out, who, "credit_stalls", peer.credit_stalls);
    Line(&out, who, "budget_stalls", peer.budget_stalls);
    Lines(&out, who, "ping_ns", peer.ping_ns);
    for (const MethodSnapshot& method : peer.methods) Lines(&out, who + " ", method);
  }
  for (const MethodSnapshot& method : methods) Lines(&out, "", method);
  for (size_t i = 0; i < reactors.size(); ++i) {
    std::string who = "reactor " + std::to_string(i);
    Line(&out, who, "turns", reactors[i].turns);
    Line(&out, who, "parks", reactors[i].parks);
    Line(&out, who, "wakes", reactors[i].wakes);
    Line(&out, who, "spin_hits", reactors[i].spin_hits);
    Line(&out, who, "spin_misses", reactors[i].spin_misses);
    Line(&out, who, "mails", reactors[i].mails);
    Line(&out, who, "drives", reactors[i].drives);
  }
  Line(&out, "receive_budget", "used_bytes", receive_budget_used_bytes);
  Line(&out, "receive_budget", "peak_bytes", receive_budget_peak_bytes);
  Line(&out, "receive_budget", "limit_bytes", receive_budget_limit_bytes);
  Line(&out, "copies", "small_bytes", copies.small_bytes);
  Line(&out, "copies", "large", copies.large_copies);
  return out.str();
}

}  // namespace fusewire::rpc
