// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "plan.h"

#include <algorithm>
#include <cmath>

namespace fusewire::simulation {
namespace {

void DrawNetwork(Random* random, Plan* plan) {
  transport::LoopbackFaults& network = plan->network;
  network.latency_ns_min = static_cast<int64_t>(DrawLog(random, 5 * kMicrosecondNs, 2 * kMillisecondNs));
  network.latency_ns_max = network.latency_ns_min * static_cast<int64_t>(random->Between(1, 4));
  network.split = random->Chance(0.5);
  network.late_answer_chance = random->Chance(0.5) ? random->Fraction() : 0;
  if (random->Chance(0.3)) network.bytes_per_second = DrawLog(random, 8 << 20, 1 << 30);
  if (random->Chance(0.4)) network.send_buffer_bytes = DrawLog(random, 256, 256 * 1024);
  if (random->Chance(0.4)) network.receive_buffer_bytes = DrawLog(random, 256, 512 * 1024);
  if (random->Chance(0.3)) network.dial_delay_ns_max = static_cast<int64_t>(DrawLog(random, 1, 20 * kMillisecondNs));
  // A few bytes at a time over a long way would take longer than any deadline.
  uint64_t in_flight = std::min(network.send_buffer_bytes, network.receive_buffer_bytes);
  if (in_flight < 4096) network.latency_ns_max = network.latency_ns_min = 5 * kMicrosecondNs;
}

}  // namespace

uint64_t DrawLog(Random* random, uint64_t low, uint64_t high) {
  if (low == 0) {
    if (random->Chance(0.1)) return 0;
    low = 1;
  }
  double from = std::log2(static_cast<double>(low)), to = std::log2(static_cast<double>(high));
  auto drawn = static_cast<uint64_t>(std::exp2(from + random->Fraction() * (to - from)));
  return std::clamp(drawn, low, high);
}

void DrawMembers(Random* random, Plan* plan) {
  size_t count = random->Between(2, 6);
  pipe::Options common;
  common.cluster = "simulation";
  if (random->Chance(0.5)) common.secret = "the secret of seed " + std::to_string(plan->seed);
  common.limits.body_bytes_max = random->Chance(0.15) ? DrawLog(random, 1 << 16, 1 << 22) : uint64_t{1} << 40;
  common.limits.segments_max = random->Chance(0.15) ? static_cast<uint16_t>(random->Between(2, 64)) : 65535;
  bool tight_queue = random->Chance(0.08), tight_calls = random->Chance(0.08);
  plan->tight = tight_queue || tight_calls;
  for (size_t i = 0; i < count; ++i) {
    MemberPlan member;
    pipe::Options& options = member.pipe;
    options = common;
    options.name = "task:" + std::to_string(i);
    options.limits.chunk_bytes_max = static_cast<uint32_t>(DrawLog(random, 4096, 256 << 10));
    options.window_bytes = random->Chance(0.5) ? DrawLog(random, 0, 256 * 1024) : 256 * 1024;
    options.receive_budget_bytes = random->Chance(0.4) ? DrawLog(random, 1, 4 << 20) : 64 << 20;
    options.silent_ns_max = static_cast<int64_t>(DrawLog(random, 300 * kMillisecondNs, 20 * kSecondNs));
    options.hello_ns_max = static_cast<int64_t>(DrawLog(random, 200 * kMillisecondNs, 5 * kSecondNs));
    options.connect_ns_max = static_cast<int64_t>(DrawLog(random, 200 * kMillisecondNs, 5 * kSecondNs));
    options.backoff_ns_min = static_cast<int64_t>(DrawLog(random, kMillisecondNs, 20 * kMillisecondNs));
    options.backoff_ns_max = static_cast<int64_t>(DrawLog(random, 20 * kMillisecondNs, 2 * kSecondNs));
    if (random->Chance(0.1)) options.greetings_max = static_cast<int>(random->Between(2, 6));
    if (tight_queue) options.queued_bytes_max = DrawLog(random, 2048, 64 * 1024);
    if (tight_calls) member.client.calls_in_flight_max = static_cast<uint32_t>(random->Between(1, 8));
    if (tight_calls) member.server.calls_in_flight_max = static_cast<uint32_t>(random->Between(8, 12));
    double patience = random->Fraction();
    if (patience < 0.15) {
      member.client.patience_ns = 0;
    } else if (patience < 0.7) {
      member.client.patience_ns = static_cast<int64_t>(DrawLog(random, 100 * kMillisecondNs, 10 * kSecondNs));
    }
    plan->members.push_back(member);
  }
  if (count > 2 && random->Chance(0.1)) {
    MemberPlan& stranger = plan->members.back();
    stranger.stranger = true;
    if (random->Chance(0.5)) {
      stranger.pipe.cluster = "another";
    } else {
      stranger.pipe.secret = common.secret.empty() ? "a secret of a stranger"
                             : random->Chance(0.5) ? ""
                                                   : "a secret that is wrong";
    }
  }
}

Plan DrawPlan(uint64_t seed) {
  Plan plan;
  plan.seed = seed;
  Random seeds(seed);
  Random network(seeds.Next()), members(seeds.Next()), questions(seeds.Next()), faults(seeds.Next());
  DrawNetwork(&network, &plan);
  DrawMembers(&members, &plan);
  DrawQuestions(&questions, &plan);
  DrawFaults(&faults, &plan);
  return plan;
}

}  // namespace fusewire::simulation
