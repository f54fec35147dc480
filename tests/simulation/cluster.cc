// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "cluster.h"

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "asked.h"
#include "handler.h"
#include "judge.h"
#include "member.h"

namespace fusewire::simulation {
namespace {

// So many rounds at one moment of virtual time are an endless loop.
constexpr uint64_t kRoundsMax = 2'000'000;
// If for so long no call has ended, none will.
constexpr int64_t kNoProgressNs = 90 * kSecondNs;
constexpr int64_t kProbeNs = 20 * kSecondNs;
constexpr int64_t kRetryNs = 10 * kMillisecondNs;

int64_t LongestSilence(const Plan& plan) {
  int64_t longest_ns = 0;
  for (const MemberPlan& member : plan.members) longest_ns = std::max(longest_ns, member.pipe.silent_ns_max);
  return longest_ns;
}

}  // namespace

void Cluster::Live() {
  for (size_t i = 0; i < run_.plan.members.size(); ++i) {
    const MemberPlan& plan = run_.plan.members[i];
    run_.journal.Say("member %zu%s: window %llu, budget %llu, chunk %u, silent %.0f ms, patience %.0f ms", i,
                     plan.stranger ? ", a stranger" : "", static_cast<unsigned long long>(plan.pipe.window_bytes),
                     static_cast<unsigned long long>(plan.pipe.receive_budget_bytes), plan.pipe.limits.chunk_bytes_max,
                     static_cast<double>(plan.pipe.silent_ns_max) / kMillisecondNs,
                     static_cast<double>(plan.client.patience_ns) / kMillisecondNs);
    run_.members.push_back(std::make_unique<Member>(&run_, static_cast<int>(i)));
  }
  const transport::LoopbackFaults& network = run_.plan.network;
  run_.journal.Say("network: latency %.3f to %.3f ms, %.0f MB/s, buffers %zu and %zu, late %.2f%s",
                   static_cast<double>(network.latency_ns_min) / kMillisecondNs,
                   static_cast<double>(network.latency_ns_max) / kMillisecondNs,
                   static_cast<double>(network.bytes_per_second) / 1e6, network.send_buffer_bytes,
                   network.receive_buffer_bytes, network.late_answer_chance, network.split ? ", split" : "");
  for (const Question& question : run_.plan.questions) {
    if (!question.asked_by_other) PlanStart(question);
  }
  for (const Fault& fault : run_.plan.faults) PlanFault(fault);
  PlanLook();
  if (!RunFor(run_.plan.horizon_ns + 2 * kMillisecondNs)) return;
  EndFaults();
  if (!FinishCalls()) return;
  if (!RunFor(2 * LongestSilence(run_.plan) + 10 * kSecondNs)) return;
  CheckRecovery();
  if (!RunFor(2 * LongestSilence(run_.plan) + kSecondNs)) return;
  CheckRest();
}

bool Cluster::RunFor(int64_t duration_ns) {
  int64_t end_ns = run_.now_ns() + duration_ns;
  uint64_t rounds = 0;
  int64_t at_ns = -1;
  bool endless = false;
  while (run_.now_ns() < end_ns || run_.schedule.NextNs() <= end_ns) {
    int64_t next_ns = std::min(end_ns, run_.schedule.NextNs());
    int64_t left_ns = next_ns - run_.now_ns();
    run_.world.RunUntil(
        [&] {
          rounds = run_.now_ns() == at_ns ? rounds + 1 : 0;
          at_ns = run_.now_ns();
          return endless = rounds > kRoundsMax;
        },
        left_ns);
    if (endless) {
      run_.journal.Find("endless", "the world does not come to rest within one moment");
      return false;
    }
    run_.world.clock()->Set(next_ns);
    run_.schedule.RunDue(next_ns);
  }
  return true;
}

void Cluster::PlanStart(const Question& question) {
  int number = question.number;
  run_.schedule.At(run_.now_ns() + question.start_ns, [this, number] {
    const Question& due = *run_.record(number).question;
    Member& asker = run_.member(due.from);
    if (asker.runs()) {
      Ask(&run_, asker.task(), number);
      return;
    }
    // No member can ask it now; perhaps later.
    Question later = due;
    later.start_ns = kRetryNs;
    if (run_.now_ns() < run_.plan.horizon_ns) PlanStart(later);
  });
}

// Reading the counters must not disturb the work.
void Cluster::PlanLook() {
  run_.After(run_.plan.horizon_ns / 8, [this] {
    if (run_.now_ns() > run_.plan.horizon_ns) return;
    for (const auto& member : run_.members) {
      if (member->runs()) member->task()->Look();
    }
    PlanLook();
  });
}

// ---- the end ----

void Cluster::EndFaults() {
  run_.journal.Say("the faults are over");
  bool dead_link = run_.meddler.Strikes(Meddle::kDeadLink);
  if (!dead_link) links_.Clear();
  for (const Fault& fault : run_.plan.faults) {
    Member& member = run_.member(fault.one);
    if (member.has_zombie()) member.KillZombie();
    if (member.task() != nullptr && member.task()->paused) member.Resume();
    if (member.task() != nullptr) member.task()->OpenServer();
  }
  if (!dead_link) return;
  static const Fault kDead = [] {
    Fault fault;
    fault.kind = FaultKind::kLose;
    fault.other = 1;
    return fault;
  }();
  run_.Disturb(0, 1);
  links_.Add(&kDead);
}

bool Cluster::FinishCalls() {
  size_t left = run_.records.size();
  for (int64_t waited_ns = 0; waited_ns < kNoProgressNs; waited_ns += kSecondNs) {
    size_t before = left;
    left = 0;
    for (const Record& record : run_.records) left += record.started && record.dones == 0 ? 1 : 0;
    if (left == 0) return true;
    if (left < before) waited_ns = 0;
    if (!RunFor(kSecondNs)) return false;
  }
  for (const Record& record : run_.records) {
    if (!record.started || record.dones > 0) continue;
    run_.journal.Find("never-done", "call %d from %d to %d has not ended", record.question->number,
                      record.question->from, record.question->to);
  }
  return true;
}

namespace {

struct Probe {
  int from = 0, to = 0;
  std::unique_ptr<rpc::SimpleCall> call;
  std::shared_ptr<ClientLife> life;
  Status status;
  bool done = false;
};

}  // namespace

// Now everybody reaches everybody, at the first attempt; unless so many greet at once that some are turned away.
void Cluster::CheckRecovery() {
  auto members = static_cast<int>(run_.members.size());
  for (int to = 0; to < members; ++to) {
    std::vector<std::pair<int, int>> pairs;
    bool crowded = run_.plan.members[static_cast<size_t>(to)].pipe.greetings_max < members;
    for (int from = 0; from < members; ++from) {
      if (from == to || run_.member(from).task() == nullptr || run_.member(to).task() == nullptr) continue;
      pairs.emplace_back(from, to);
      if (crowded) ProbeAll(std::exchange(pairs, {}));
    }
    ProbeAll(pairs);
  }
}

void Cluster::ProbeAll(const std::vector<std::pair<int, int>>& pairs) {
  std::vector<std::unique_ptr<Probe>> probes;
  for (const auto& [from, to] : pairs) {
    probes.push_back(std::make_unique<Probe>());
    Probe* probe = probes.back().get();
    probe->from = from;
    probe->to = to;
    probe->call = std::make_unique<rpc::SimpleCall>(kProbeMethod, [probe](Status status) {
      probe->status = std::move(status);
      probe->done = true;
    });
    probe->call->timeout_ns = kProbeNs;
    run_.member(from).task()->ClientOf(to, 0, &probe->life).Start(probe->call.get());
  }
  auto finished = [&probes] {
    return std::all_of(probes.begin(), probes.end(), [](const auto& probe) { return probe->done; });
  };
  for (int64_t waited_ns = 0; waited_ns <= kProbeNs + kSecondNs && !finished(); waited_ns += kRetryNs) RunFor(kRetryNs);
  for (const auto& probe : probes) {
    const auto& plans = run_.plan.members;
    bool strange = plans[static_cast<size_t>(probe->from)].stranger != plans[static_cast<size_t>(probe->to)].stranger;
    Code expected = strange ? Code::kRefused : Code::kOk;
    run_.journal.Say("probe from %d to %d ends: %s", probe->from, probe->to, probe->status.ToString().c_str());
    if (probe->done && probe->status.code() == expected) continue;
    run_.journal.Find("no-recovery", "a fresh call from %d to %d ends with: %s", probe->from, probe->to,
                      probe->status.ToString().c_str());
  }
}

void Cluster::CheckRest() {
  for (const auto& member : run_.members) {
    if (member->task() != nullptr) member->task()->CheckIdle();
  }
  if (run_.sinks != 0) run_.journal.Find("sinks-left", "%d sinks of requests are still there", run_.sinks);
}

void Cluster::TakeDown() {
  for (const auto& member : run_.members) {
    if (member->has_zombie()) member->KillZombie();
    if (member->task() != nullptr && member->task()->paused) member->Resume();
    member->End();
  }
  run_.over = true;
  RunFor(kSecondNs);
  for (const Record& record : run_.records) {
    for (const Landing& landing : record.landings) {
      if (landing.sealed() && !landing.IsAsSealed()) {
        run_.journal.Find("late-write", "the landing of call %d has changed after its Done", record.question->number);
      }
    }
    if (record.started && record.dones == 0) {
      run_.journal.Find("never-done", "call %d has not ended although its client has", record.question->number);
    }
  }
  if (run_.part_dones_due != 0) {
    run_.journal.Find("part-done", "%d Dones of parts are missing", run_.part_dones_due);
  }
  if (run_.sinks != 0) run_.journal.Find("sinks-left", "%d sinks of requests are still there", run_.sinks);
  run_.ledger.CheckAllBack();
}

Outcome Simulate(uint64_t seed, Meddle meddle, bool print) {
  CopyCounts before = ReadCopyCounts();
  Run run(seed, meddle, print);
  Cluster cluster(&run);
  cluster.Live();
  cluster.TakeDown();
  uint64_t large = ReadCopyCounts().large_copies - before.large_copies;
  if (large != 0)
    run.journal.Find("large-copy", "%llu pieces of payload were copied", static_cast<unsigned long long>(large));
  run.journal.Note(run.world.fingerprint());
  if (run.meddler.Strikes(Meddle::kNoise)) run.journal.Note(std::random_device()());
  Outcome outcome;
  outcome.findings = run.journal.findings();
  outcome.sum = run.journal.sum();
  outcome.meddled = run.meddler.struck();
  outcome.faults = run.plan.faults.size();
  outcome.virtual_ns = run.now_ns();
  for (const Record& record : run.records) {
    if (record.dones > 0) ++outcome.ends[static_cast<size_t>(record.status.code())];
  }
  return outcome;
}

}  // namespace fusewire::simulation
