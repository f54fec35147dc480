// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/group/call_order.h"

#include <algorithm>

#include "fusewire/base/check.h"

namespace fusewire::collective {
namespace {

constexpr size_t kFailedKeysMax = 64 * 1024;

}  // namespace

void CallOrder::Place(GroupOperation* operation) {
  Fingerprint& print = operation->print;
  print.kind = static_cast<uint8_t>(operation->spec.kind);
  print.epoch = static_cast<uint16_t>(epoch_);
  print.key = operation->spec.key;
  print.keyed = print.key != 0 ? 1 : 0;
  if (print.keyed != 0) {
    const auto failed = key_turns_.find(print.key);
    print.turn = failed == key_turns_.end() ? 0 : failed->second;
  } else {
    print.turn = operation->given_turn.value_or(turn_);
    PlaceGiven(print.turn);
  }
  operation->tag = TagOf(print);
  FUSEWIRE_DCHECK(print.keyed == 0 || print.key != 0);
  FUSEWIRE_DCHECK(print.keyed == 0 || !operation->given_turn.has_value());  // the lane's have no key
}

// The lane gives out turns on many threads, and they come home nearly in order. Turns in between went through the
// arena, or are still to come.
void CallOrder::PlaceGiven(uint64_t turn) {
  skipped_.erase(turn);
  for (uint64_t between = turn; between > turn_ && over_messages_(between - 1); --between) skipped_.insert(between - 1);
  turn_ = std::max(turn_, turn + 1);
  FUSEWIRE_DCHECK(turn < turn_);
  FUSEWIRE_DCHECK(skipped_.count(turn) == 0);
}

bool CallOrder::HasEnded(const Fingerprint& place) const {
  if (place.keyed == 0) return place.turn < turn_ && skipped_.count(place.turn) == 0;
  const auto failed = key_turns_.find(place.key);
  return failed != key_turns_.end() && place.turn < failed->second;
}

void CallOrder::OnFailed(const Fingerprint& place) {
  if (place.keyed == 0) return;
  if (key_turns_.size() >= kFailedKeysMax) key_turns_.erase(key_turns_.begin());
  FUSEWIRE_DCHECK(key_turns_.size() < kFailedKeysMax);
  key_turns_[place.key] = place.turn + 1;
}

void CallOrder::EnterEpoch(uint32_t epoch) {
  FUSEWIRE_CHECK(epoch == epoch_ + 1);
  epoch_ = epoch;
  turn_ = 0;
  skipped_.clear();
  key_turns_.clear();
}

}  // namespace fusewire::collective
