// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/group/recording.h"

#include <algorithm>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"

namespace fusewire::collective {
namespace {

// Soon enough for `fusewire why`, and rare enough to cost nothing.
constexpr int64_t kLookNs = 100 * kMillisecondNs;

std::vector<int> MissingFor(const ScheduleRunner& runner, int ranks) {
  std::vector<int> missing;
  const std::vector<int> waited_for = runner.WaitsFor();
  for (int rank = 0; rank < ranks; ++rank) {
    const bool is_waited_for = std::binary_search(waited_for.begin(), waited_for.end(), rank);
    if (is_waited_for || runner.WaitsToReach(rank)) missing.push_back(rank);
  }
  return missing;
}

}  // namespace

void ArenaRecorder::Open(int64_t now_ns) {
  FUSEWIRE_DCHECK(operation_->given_turn.has_value());
  Fingerprint place;
  place.epoch = static_cast<uint16_t>(operation_->given_epoch);
  place.turn = *operation_->given_turn;
  record_.Begin(monitor_, operation_->spec, PlaceOf(place, true), tags_.Of(operation_->given_epoch, place), now_ns);
}

void ArenaRecorder::OnWait(int64_t since_ns, uint64_t missing) {
  if (operation_ == nullptr || !monitor_->on()) return;
  if (!record_.begun()) Open(since_ns);
  std::vector<int> ranks;
  for (int rank = 0; missing != 0; ++rank, missing >>= 1) {
    if ((missing & 1) != 0) ranks.push_back(rank);
  }
  record_.WaitFor(ranks, since_ns);
}

void MessageRecorder::Begin(GroupOperation* operation) {
  if (!monitor_->on()) return;
  operation->record = std::make_unique<OpRecord>();
  operation->record->Begin(monitor_, operation->spec, PlaceOf(operation->print, operation->given_turn.has_value()),
                           operation->tag, home_.now_ns());
  Arm();
}

void MessageRecorder::End(GroupOperation* operation, const Status& status) {
  if (operation->record == nullptr) return;
  const uint64_t bytes = status.ok() ? BytesOf(operation->spec) : 0;
  const bool sets_up = PlaceOf(operation->print, operation->given_turn.has_value()) == OpRecord::kAgreement;
  if (status.ok() && !sets_up) tally_.Add(bytes);
  operation->record->End(status.ok(), bytes);
  operation->record.reset();
}

void MessageRecorder::Arm() {
  if (timer_ == nullptr) timer_ = std::make_unique<reactor::Timer>([this] { Look(); });
  if (!timer_->armed()) home_.Arm(timer_.get(), kLookNs);
}

void MessageRecorder::Look() {
  bool is_any = false;
  table_->ForRunning([this, &is_any](const GroupOperation* operation) {
    if (operation->record == nullptr || operation->runner == nullptr) return;
    is_any = true;
    if (home_.now_ns() - operation->record->begun_ns() < kLookNs) return;
    operation->record->WaitFor(MissingFor(*operation->runner, operation->runner->ranks()),
                               operation->record->begun_ns());
  });
  if (is_any) Arm();
}

}  // namespace fusewire::collective
