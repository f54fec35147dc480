// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The faults of a run, at their times.
#include <utility>

#include "cluster.h"
#include "member.h"

namespace fusewire::simulation {
namespace {

// A silent peer gets a second look after 50 ms; a timer may be a tick late.
constexpr int64_t kSecondLookNs = 60 * kMillisecondNs;

bool IsOfLinks(FaultKind kind) { return kind < FaultKind::kKill; }

}  // namespace

void Cluster::PlanFault(const Fault& fault) {
  run_.schedule.At(run_.now_ns() + fault.at_ns, [this, &fault] { Strike(fault); });
}

void Cluster::Strike(const Fault& fault) {
  if (IsOfLinks(fault.kind)) {
    run_.journal.Say("fault: %s between %d and %d%s", NameOf(fault.kind), fault.one, fault.other,
                     fault.both_ways ? "" : ", one way");
    run_.Disturb(fault.one, fault.other);
    if (fault.kind == FaultKind::kLies) {
      run_.journal.Say("of each piece %.4f are corrupted, %.4f lost, %.4f doubled", fault.faults.corrupt_chance,
                       fault.faults.drop_chance, fault.faults.duplicate_chance);
    }
    StrikeLinks(fault);
  } else {
    run_.journal.Say("fault: %s of %d%s%s", NameOf(fault.kind), fault.one, fault.silent ? ", silent" : "",
                     fault.elsewhere ? ", elsewhere" : "");
    StrikeMember(fault);
  }
}

void Cluster::StrikeLinks(const Fault& fault) {
  const std::string &one = run_.member(fault.one).host(), &other = run_.member(fault.other).host();
  if (fault.kind == FaultKind::kCut) {
    run_.world.Cut(one, other);
    return;
  }
  if (fault.kind == FaultKind::kHalfClose) {
    run_.world.HalfClose(one, other);
    return;
  }
  int id = links_.Add(&fault);
  PlanSilenceCheck(fault.other, fault.one);
  PlanSilenceCheck(fault.one, fault.other);
  run_.After(fault.duration_ns, [this, id, &fault] {
    run_.journal.Say("the fault %d is over", id);
    links_.Remove(id);
    // Bytes that are missing from a body show only once others have filled it, which may take for ever. No network
    // that we know does this to a connection and then lets it live.
    bool gaps = fault.kind == FaultKind::kLies && fault.faults.corrupt_chance == 0;
    if (gaps) run_.world.Cut(run_.member(fault.one).host(), run_.member(fault.other).host());
  });
}

void Cluster::DisturbAll(int member) {
  for (int other = 0; other < static_cast<int>(run_.members.size()); ++other) {
    if (other != member) run_.Disturb(member, other);
  }
}

void Cluster::StrikeMember(const Fault& fault) {
  int index = fault.one;
  Member& member = run_.member(index);
  Task* task = member.task();
  if (task == nullptr) return;
  if (fault.kind == FaultKind::kKill) {
    DisturbAll(index);
    member.Kill(fault.silent ? transport::LoopbackDeath::kSilent : transport::LoopbackDeath::kReset);
    if (fault.stays_away) return;
    run_.After(fault.duration_ns, [this, &member, &fault] {
      run_.journal.Say("%d comes back", fault.one);
      member.Restart(fault.elsewhere);
      links_.Apply();
    });
    return;
  }
  if (task->paused) return;  // it cannot do anything to itself
  uint64_t incarnation = task->incarnation;
  DisturbAll(index);
  switch (fault.kind) {
    case FaultKind::kPause:
      member.Pause();
      run_.After(fault.duration_ns, [&member, incarnation] {
        Task* paused = member.task();
        if (paused != nullptr && paused->incarnation == incarnation && paused->paused) member.Resume();
      });
      return;
    case FaultKind::kZombie:
      if (member.has_zombie()) return;
      member.BeReplaced();
      links_.Apply();
      run_.After(fault.duration_ns / 2, [&member, incarnation] {
        if (member.has_zombie() && member.TaskOf(incarnation) != nullptr) member.ResumeZombie();
      });
      run_.After(fault.duration_ns, [&member, incarnation] {
        if (member.has_zombie() && member.TaskOf(incarnation) != nullptr) member.KillZombie();
      });
      return;
    case FaultKind::kCloseServer:
      task->CloseServer();
      run_.After(fault.duration_ns, [&member, incarnation] {
        Task* closed = member.TaskOf(incarnation);
        if (closed != nullptr && !closed->paused) closed->OpenServer();
      });
      return;
    default: task->CloseClients();
  }
}

// ---- a silent peer is given up in time ----

void Cluster::PlanSilenceCheck(int asker, int peer) {
  if (!links_.silent(peer, asker)) return;
  int64_t since_ns = run_.now_ns();
  int64_t silent_ns = run_.plan.members[static_cast<size_t>(asker)].pipe.silent_ns_max;
  std::string asker_host = run_.member(asker).host(), peer_host = run_.member(peer).host();
  run_.After(silent_ns + kSecondLookNs, [this, asker, peer, since_ns, asker_host, peer_host] {
    bool moved = run_.member(asker).host() != asker_host || run_.member(peer).host() != peer_host;
    bool slept = run_.member(asker).paused_until_ns() > since_ns;
    if (links_.silent(peer, asker) && links_.silent_since_ns(peer, asker) <= since_ns && !moved && !slept) {
      CheckSilence(asker, peer, since_ns);
    }
  });
}

// Calls that the peer had got before it fell silent.
void Cluster::CheckSilence(int asker, int peer, int64_t since_ns) {
  for (const Record& record : run_.records) {
    const Question& question = *record.question;
    bool concerned = question.from == asker && question.to == peer && record.started && record.handled_ns < since_ns;
    if (concerned && record.handled > 0 && record.dones == 0) {
      run_.journal.Find("late-done", "call %d still waits for a peer that has been silent for %.3f ms", question.number,
                        static_cast<double>(run_.now_ns() - since_ns) / kMillisecondNs);
    }
  }
}

}  // namespace fusewire::simulation
