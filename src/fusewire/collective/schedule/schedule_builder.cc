// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/schedule/schedule_builder.h"

#include <string>

namespace fusewire::collective {
namespace {

size_t CountsNeeded(const Request& request) {
  if (IsEven(request)) return 1;
  switch (request.kind) {
    case CollectiveKind::kBarrier: return 0;
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduce:
    case CollectiveKind::kBroadcast: return 1;
    default: return static_cast<size_t>(request.ranks);
  }
}

Status Check(const Request& request) {
  const std::string what = KindName(request.kind) + " by " + AlgorithmName(request.algorithm);
  if (request.ranks < 1 || request.ranks > kScheduleRanksMax || request.rank < 0 || request.rank >= request.ranks ||
      request.root < 0 || request.root >= request.ranks) {
    return Status::Invalid(what + ": `rank` is " + std::to_string(request.rank) + ", `root` " +
                           std::to_string(request.root) + ", `ranks` " + std::to_string(request.ranks))
        .Next("give a rank and a root from 0 to less than `ranks`");
  }
  if (!IsAlgorithmOf(request.kind, request.algorithm)) {
    return Status::Invalid(what + ": there is no such schedule").Next("choose one that AlgorithmsOf names");
  }
  const bool has_receives = request.kind == CollectiveKind::kAllToAll && !IsEven(request);
  const size_t receives = has_receives ? static_cast<size_t>(request.ranks) : 0;
  if (request.counts.size() != CountsNeeded(request) || request.receives.size() != receives) {
    return Status::Invalid(what + ": `counts` has " + std::to_string(request.counts.size()) +
                           " numbers, and `receives` " + std::to_string(request.receives.size()))
        .Next("see the table at Request in schedule.h");
  }
  if (has_receives && request.algorithm == Algorithm::kBruck) {
    return Status::Invalid(what + ": the ranks' counts may differ").Next("give one count, or choose another algorithm");
  }
  if (request.in_place && request.kind == CollectiveKind::kAllToAll) {
    return Status::Invalid(what + ": `in_place` is set").Next("give an all-to-all an output of its own");
  }
  if (!request.hosts.empty() && request.hosts.size() != static_cast<size_t>(request.ranks)) {
    return Status::Invalid(what + ": `hosts` has " + std::to_string(request.hosts.size()) + " numbers for " +
                           std::to_string(request.ranks) + " ranks")
        .Next("name the host of each rank, or of none");
  }
  if (request.algorithm == Algorithm::kTwoLevel && request.kind != CollectiveKind::kAllGather &&
      (!IsAlgorithmOf(request.kind, request.between) || request.between == Algorithm::kTwoLevel)) {
    return Status::Invalid(what + ": no schedule by " + AlgorithmName(request.between) + " between hosts")
        .Next("choose another one of AlgorithmsOf");
  }
  if (request.segment_count == 0) return Status::Invalid(what + ": `segment_count` is 0").Next("give at least 1");
  return Status::Ok();
}

void Build(Builder* builder) {
  switch (builder->request().kind) {
    case CollectiveKind::kBarrier: return BuildBarrier(builder);
    case CollectiveKind::kAllReduce: return BuildAllReduce(builder);
    case CollectiveKind::kReduceScatter: return BuildReduceScatter(builder);
    case CollectiveKind::kAllGather: return BuildAllGather(builder);
    case CollectiveKind::kBroadcast: return BuildBroadcast(builder);
    case CollectiveKind::kReduce: return BuildReduce(builder);
    case CollectiveKind::kGather: return BuildGather(builder);
    case CollectiveKind::kScatter: return BuildScatter(builder);
    case CollectiveKind::kAllToAll: return BuildAllToAll(builder);
  }
}

// In place, all spans refer to the larger array: the smaller one is a block of it.
void NameByTheLarger(const Request& request, Schedule* schedule) {
  const bool own_block = request.kind == CollectiveKind::kReduceScatter || request.kind == CollectiveKind::kAllGather ||
                         request.kind == CollectiveKind::kGather || request.kind == CollectiveKind::kScatter;
  const bool rooted = request.kind == CollectiveKind::kGather || request.kind == CollectiveKind::kScatter ||
                      request.kind == CollectiveKind::kReduce;
  if (rooted && request.rank != request.root) return;  // only the root has both
  FUSEWIRE_DCHECK(request.in_place);
  const size_t shift = own_block ? Blocks(request.counts).at(static_cast<size_t>(request.rank)) : 0;
  const bool input_is_larger =
      request.kind == CollectiveKind::kReduceScatter || request.kind == CollectiveKind::kScatter;
  const Memory smaller = input_is_larger ? Memory::kOutput : Memory::kInput;
  const Memory larger = input_is_larger ? Memory::kInput : Memory::kOutput;
  auto rename = [smaller, larger, shift](Span* span) {
    if (span->memory != smaller) return;
    span->memory = larger;
    span->at += shift;
  };
  for (Stage& stage : schedule->stages) {
    for (Step& step : stage) {
      rename(&step.span);
      for (Span& span : step.from) rename(&span);
    }
    std::erase_if(stage, [](const Step& step) {
      return step.what == Step::Do::kCopy && step.from[0].memory == step.span.memory && step.from[0].at == step.span.at;
    });
  }
}

void MeasureScratch(Schedule* schedule) {
  auto measure = [schedule](const Span& span) {
    if (span.memory != Memory::kScratch) return;
    schedule->scratch_count = std::max(schedule->scratch_count, span.at + span.count);
  };
  for (const Stage& stage : schedule->stages) {
    for (const Step& step : stage) {
      measure(step.span);
      for (const Span& span : step.from) measure(span);
    }
  }
}

// The invariants of a step that its runner relies on.
void CheckStep(const Request& request, const Step& step) {
  const bool message = step.what == Step::Do::kSend || step.what == Step::Do::kReceive;
  FUSEWIRE_DCHECK(message == (step.peer >= 0));
  FUSEWIRE_DCHECK(step.peer < request.ranks);
  FUSEWIRE_DCHECK(step.peer != request.rank);
  FUSEWIRE_DCHECK(message == step.from.empty());
  FUSEWIRE_DCHECK(step.what != Step::Do::kCopy || step.from.size() == 1);
  for (const Span& span : step.from) FUSEWIRE_DCHECK(span.count == step.span.count);
  // An input is written only if it is the larger array of an operation in place.
  const bool writes = step.what != Step::Do::kSend && step.span.count > 0;
  FUSEWIRE_DCHECK(!writes || step.span.memory != Memory::kInput || request.in_place);
}

}  // namespace

Result<Schedule> Compile(const Request& request) {
  FUSEWIRE_TRY(Check(request));
  Builder builder(request);
  Build(&builder);
  Schedule schedule = builder.Take();
  if (request.in_place) NameByTheLarger(request, &schedule);
  std::erase_if(schedule.stages, [](const Stage& stage) { return stage.empty(); });
  MeasureScratch(&schedule);
  for (const Stage& stage : schedule.stages) {
    for (const Step& step : stage) CheckStep(request, step);
  }
  return schedule;
}

}  // namespace fusewire::collective
