// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The faults of a run.
#include <algorithm>

#include "plan.h"

namespace fusewire::simulation {
namespace {

class Faults {
 public:
  Faults(Random* random, Plan* plan) : random_(*random), plan_(*plan) {}

  void DrawAll() {
    if (random_.Chance(0.2)) return;  // a calm run: every call has to end as it was meant to
    lies_ = plan_.lies = random_.Chance(0.15);
    if (lies_) ProveGreetings();
    size_t count = DrawLog(&random_, 1, 25);
    while (plan_.faults.size() < count) {
      if (random_.Chance(0.05)) {
        DrawSwizzle();
      } else {
        DrawOne();
      }
    }
    std::stable_sort(plan_.faults.begin(), plan_.faults.end(),
                     [](const Fault& one, const Fault& other) { return one.at_ns < other.at_ns; });
  }

 private:
  Fault DrawAny() {
    Fault fault;
    fault.at_ns = static_cast<int64_t>(random_.Below(static_cast<uint64_t>(plan_.horizon_ns)));
    fault.duration_ns = static_cast<int64_t>(
        DrawLog(&random_, kMillisecondNs, static_cast<uint64_t>(plan_.horizon_ns - fault.at_ns + kMillisecondNs)));
    uint64_t members = plan_.members.size();
    fault.one = static_cast<int>(random_.Below(members));
    fault.other = static_cast<int>((static_cast<uint64_t>(fault.one) + random_.Between(1, members - 1)) % members);
    fault.both_ways = random_.Chance(0.5);
    fault.faults = plan_.network;
    return fault;
  }

  void DrawOne() {
    Fault fault = DrawAny();
    double kind = random_.Fraction();
    if (lies_ && random_.Chance(0.5)) {
      DrawLies(&fault);
    } else if (kind < 0.2) {
      fault.kind = FaultKind::kCut;
    } else if (kind < 0.28) {
      fault.kind = FaultKind::kHalfClose;
    } else if (kind < 0.4) {
      fault.kind = FaultKind::kClog;
    } else if (kind < 0.5) {
      fault.kind = FaultKind::kLose;
    } else if (kind < 0.58) {
      DrawSlow(&fault);
    } else if (kind < 0.64) {
      fault.kind = FaultKind::kRefuse;
      fault.faults.refuse_chance = random_.Chance(0.5) ? 1 : random_.Fraction();
    } else if (kind < 0.76) {
      DrawKill(&fault);
    } else if (kind < 0.85) {
      fault.kind = FaultKind::kPause;
    } else if (kind < 0.89) {
      fault.kind = FaultKind::kZombie;
    } else if (kind < 0.95) {
      fault.kind = FaultKind::kCloseServer;
    } else {
      fault.kind = FaultKind::kCloseClients;
    }
    plan_.faults.push_back(fault);
  }

  void DrawSlow(Fault* fault) {
    fault->kind = FaultKind::kSlow;
    transport::LoopbackFaults& faults = fault->faults;
    faults.latency_ns_max = faults.latency_ns_min = static_cast<int64_t>(DrawLog(&random_, 1, 50 * kMillisecondNs));
    faults.bytes_per_second = DrawLog(&random_, 100 << 10, 100 << 20);
    faults.send_buffer_bytes = DrawLog(&random_, 4096, 256 << 10);
    faults.receive_buffer_bytes = DrawLog(&random_, 4096, 256 << 10);
    faults.split = random_.Chance(0.5);
    if (random_.Chance(0.3)) faults.cut_chance = random_.Fraction() * 0.01;
  }

  // A greeting has no checksum: only a proof reveals an altered one. Windows that the two ends count differently never
  // open.
  void ProveGreetings() {
    for (MemberPlan& member : plan_.members) {
      if (!member.stranger && member.pipe.secret.empty()) member.pipe.secret = "the secret of a lying network";
    }
  }

  void DrawLies(Fault* fault) {
    fault->kind = FaultKind::kLies;
    transport::LoopbackFaults& faults = fault->faults;
    double* chances[] = {&faults.corrupt_chance, &faults.drop_chance, &faults.duplicate_chance};
    *chances[random_.Below(3)] = static_cast<double>(DrawLog(&random_, 1, 1000)) / 2000;
  }

  void DrawKill(Fault* fault) {
    fault->kind = FaultKind::kKill;
    fault->silent = random_.Chance(0.5);
    fault->elsewhere = random_.Chance(0.3);
    // Somebody has to be left to talk to.
    if (!somebody_stays_away_ && plan_.members.size() > 2 && random_.Chance(0.15)) {
      fault->stays_away = somebody_stays_away_ = true;
    }
  }

  // All ways of one member stop one by one, and start again in another order.
  void DrawSwizzle() {
    Fault fault = DrawAny();
    fault.kind = FaultKind::kClog;
    auto members = static_cast<int>(plan_.members.size());
    int64_t end_ns = fault.at_ns + fault.duration_ns;
    for (int other = 0; other < members; ++other) {
      if (other == fault.one) continue;
      fault.other = other;
      int64_t left_ns = end_ns - fault.at_ns;
      fault.at_ns += static_cast<int64_t>(random_.Below(static_cast<uint64_t>(left_ns / 4 + 1)));
      fault.duration_ns = static_cast<int64_t>(random_.Below(static_cast<uint64_t>(end_ns - fault.at_ns + 1)));
      plan_.faults.push_back(fault);
    }
  }

  Random& random_;
  Plan& plan_;
  bool lies_ = false;
  bool somebody_stays_away_ = false;
};

}  // namespace

const char* NameOf(FaultKind kind) {
  switch (kind) {
    case FaultKind::kCut: return "cut";
    case FaultKind::kHalfClose: return "half-close";
    case FaultKind::kClog: return "clog";
    case FaultKind::kLose: return "lose";
    case FaultKind::kSlow: return "slow";
    case FaultKind::kRefuse: return "refuse";
    case FaultKind::kLies: return "lies";
    case FaultKind::kKill: return "kill";
    case FaultKind::kPause: return "pause";
    case FaultKind::kZombie: return "zombie";
    case FaultKind::kCloseServer: return "close-server";
    case FaultKind::kCloseClients: return "close-clients";
  }
  return "?";
}

void DrawFaults(Random* random, Plan* plan) { Faults(random, plan).DrawAll(); }

}  // namespace fusewire::simulation
