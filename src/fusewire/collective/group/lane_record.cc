// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/group/lane_record.h"

#include <vector>

#include "fusewire/base/check.h"

namespace fusewire::collective {

void LaneRecord::Open(int64_t now_ns) {
  FUSEWIRE_DCHECK(operation_->given_turn.has_value());
  Fingerprint place;
  place.epoch = static_cast<uint16_t>(operation_->given_epoch);
  place.turn = *operation_->given_turn;
  record_.Begin(shown_, operation_->spec, PlaceOf(place, true), tags_.Of(operation_->given_epoch, place), now_ns);
}

void LaneRecord::OnWait(int64_t since_ns, uint64_t missing) {
  if (operation_ == nullptr || !shown_->on()) return;
  if (!record_.begun()) Open(since_ns);
  std::vector<int> ranks;
  for (int rank = 0; missing != 0; ++rank, missing >>= 1) {
    if ((missing & 1) != 0) ranks.push_back(rank);
  }
  record_.WaitFor(ranks, since_ns);
}

}  // namespace fusewire::collective
