// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/group/runners.h"

#include <algorithm>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/collective/schedule/choice.h"

namespace fusewire::collective {
namespace {

constexpr size_t kIdleNodesMax = 64 * 1024;

std::string KeyOf(uint32_t epoch, const Request& request, size_t element_bytes) {
  std::string key;
  auto add = [&key](uint64_t number) { key.append(reinterpret_cast<const char*>(&number), sizeof(number)); };
  add(epoch);
  add(static_cast<uint64_t>(request.kind) << 24 | static_cast<uint64_t>(request.algorithm) << 16 |
      (request.in_place ? 1U << 8 : 0U) | element_bytes);
  add(static_cast<uint64_t>(request.root));
  add(request.segment_count);
  for (const size_t count : request.counts) add(count);
  for (const size_t count : request.receives) add(count);
  return key;
}

}  // namespace

Status Runners::Prepare(GroupOperation* operation) {
  ScheduleRunner::Run& run = operation->run;
  if (operation->runner == nullptr || operation->prepared_epoch != seats_->epoch()) {
    operation->runner.reset();
    Request request;
    FUSEWIRE_TRY(Choose(operation, &request));
    Result<std::unique_ptr<ScheduleRunner>> runner = Find(request, operation);
    if (!runner.ok()) return runner.status();
    operation->runner = std::move(runner).value();
    operation->runner->context = operation;
    operation->prepared_epoch = seats_->epoch();
    run.reduction = operation->spec.reduction;
    run.confirm = operation->spec.confirm;
  }
  run.tag = operation->tag;
  run.print = operation->print;
  operation->runner->Prepare(run);
  return Status::Ok();
}

// Completes its request with the algorithm, and its fingerprint.
Status Runners::Choose(GroupOperation* operation, Request* request) {
  const CollectiveSpec& spec = operation->spec;
  const int ranks = seats_->ranks(), rank = seats_->rank();
  FUSEWIRE_TRY(CheckSpec(spec, ranks, rank, &operation->run.arrays));
  const size_t element_bytes = SizeOf(spec.reduction.type);
  request->kind = spec.kind;
  request->ranks = ranks;
  request->rank = rank;
  request->root = spec.root;
  request->counts = spec.counts;
  request->receives = spec.receives;
  request->in_place = operation->run.arrays.in_place;
  // In an all-to-all each rank knows only its own counts, so the choice must not depend on them.
  const size_t bytes = spec.kind == CollectiveKind::kAllToAll ? 0 : SumOf(request->counts) * element_bytes;
  const Choice choice = collective::Choose(spec.kind, ranks, bytes, options_.link_cost, options_.table,
                                           options_.reproducible, seats_->places());
  request->algorithm = choice.algorithm;
  if (choice.algorithm == Algorithm::kTwoLevel) {
    request->hosts = seats_->places().hosts;
    request->between = choice.between;
  }
  request->segment_count = std::max<size_t>(choice.segment_bytes / element_bytes, 1);
  const Fingerprint place = operation->print;
  operation->print = FingerprintOf(*request, spec.reduction);
  operation->print.keyed = place.keyed;
  operation->print.key = place.key;
  operation->print.turn = place.turn;
  operation->print.epoch = place.epoch;
  return Status::Ok();
}

Result<std::unique_ptr<ScheduleRunner>> Runners::Find(const Request& request, GroupOperation* operation) {
  const size_t element_bytes = SizeOf(operation->spec.reduction.type);
  operation->runner_key = KeyOf(seats_->epoch(), request, element_bytes);
  const auto found = idle_.find(operation->runner_key);
  if (found == idle_.end() || found->second.empty())
    return ScheduleRunner::Make(request, element_bytes, &endpoint_, seats_->PeersOfRanks(), owner_);
  std::unique_ptr<ScheduleRunner> runner = std::move(found->second.back());
  found->second.pop_back();
  FUSEWIRE_CHECK(idle_nodes_ > runner->nodes());
  idle_nodes_ -= runner->nodes() + 1;
  return runner;
}

void Runners::TakeBack(GroupOperation* operation) {
  std::unique_ptr<ScheduleRunner> runner = std::move(operation->runner);
  FUSEWIRE_CHECK(!runner->running());
  FUSEWIRE_DCHECK(operation->prepared_epoch <= seats_->epoch());
  if (idle_nodes_ + runner->nodes() + 1 > kIdleNodesMax) Clear();
  if (runner->nodes() + 1 > kIdleNodesMax) return;
  idle_nodes_ += runner->nodes() + 1;
  idle_[operation->runner_key].push_back(std::move(runner));
}

void Runners::Clear() {
  idle_.clear();
  idle_nodes_ = 0;
}

}  // namespace fusewire::collective
