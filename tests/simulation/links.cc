// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "links.h"

#include "member.h"

namespace fusewire::simulation {
namespace {

bool LiesOn(const Fault& fault, int from, int to) {
  return (fault.one == from && fault.other == to) || (fault.both_ways && fault.one == to && fault.other == from);
}

}  // namespace

int Links::Add(const Fault* fault) {
  faults_[next_id_] = fault;
  Apply();
  return next_id_++;
}

void Links::Remove(int id) {
  faults_.erase(id);
  Apply();
}

void Links::Clear() {
  faults_.clear();
  Apply();
}

transport::LoopbackFaults Links::FaultsOf(int from, int to) const {
  transport::LoopbackFaults faults = run_.plan.network;
  for (const auto& [id, fault] : faults_) {
    if (!LiesOn(*fault, from, to)) continue;
    const transport::LoopbackFaults& worse = fault->faults;
    switch (fault->kind) {
      case FaultKind::kClog: faults.clogged = true; break;
      case FaultKind::kLose: faults.lost = true; break;
      case FaultKind::kRefuse: faults.refuse_chance = worse.refuse_chance; break;
      case FaultKind::kLies:
        faults.corrupt_chance = worse.corrupt_chance;
        faults.drop_chance = worse.drop_chance;
        faults.duplicate_chance = worse.duplicate_chance;
        break;
      default:
        faults.latency_ns_min = worse.latency_ns_min;
        faults.latency_ns_max = worse.latency_ns_max;
        faults.bytes_per_second = worse.bytes_per_second;
        faults.send_buffer_bytes = worse.send_buffer_bytes;
        faults.receive_buffer_bytes = worse.receive_buffer_bytes;
        faults.split = worse.split;
        faults.cut_chance = worse.cut_chance;
    }
  }
  return faults;
}

void Links::Apply() {
  auto members = static_cast<int>(run_.members.size());
  for (int from = 0; from < members; ++from) {
    for (int to = 0; to < members; ++to) {
      if (from != to) ApplyOne(from, to);
    }
  }
}

void Links::ApplyOne(int from, int to) {
  bool any = false;
  for (const auto& [id, fault] : faults_) any |= LiesOn(*fault, from, to);
  const std::string &from_host = run_.member(from).host(), &to_host = run_.member(to).host();
  transport::LoopbackFaults faults = FaultsOf(from, to);
  if (faults.clogged || faults.lost) {
    silent_since_.insert({{from, to}, run_.now_ns()});
  } else {
    silent_since_.erase({from, to});
  }
  if (any) {
    run_.world.SetFaultsBetween(from_host, to_host, faults);
  } else {
    run_.world.ClearFaultsBetween(from_host, to_host);
  }
}

}  // namespace fusewire::simulation
