// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Matches an operation with those of the other ranks: by its turn in the order of calls, or by its key. After a
// failure, a key continues under another tag. Home: the endpoint's. Owns: the turns and keys of this epoch. Fails:
// never. Turns below turn_ have ended, are under way, or are in skipped_, which holds turns that are still to come.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "fusewire/collective/group/group_operation.h"
#include "fusewire/collective/group/group_tags.h"
#include "fusewire/collective/run/fingerprint.h"

namespace fusewire::collective {

class CallOrder {
 public:
  // `over_messages` returns whether a turn that the lane has given out will come here.
  CallOrder(const std::string& group_name, std::function<bool(uint64_t turn)> over_messages)
      : tags_(group_name), over_messages_(std::move(over_messages)) {}

  // Fills in its tag, and the place of its fingerprint.
  void Place(GroupOperation* operation);
  // The tag of a place that another rank has sent.
  uint64_t TagOf(const Fingerprint& place) const { return tags_.Of(epoch_, place); }
  bool HasEnded(const Fingerprint& place) const;
  // The operation of that place has failed: later operations of its key have the next turn.
  void OnFailed(const Fingerprint& place);
  void EnterEpoch(uint32_t epoch);

  const GroupTags& tags() const { return tags_; }

 private:
  void PlaceGiven(uint64_t turn);

  const GroupTags tags_;
  const std::function<bool(uint64_t turn)> over_messages_;
  uint32_t epoch_ = 0;
  uint64_t turn_ = 0;
  std::set<uint64_t> skipped_;
  std::unordered_map<uint64_t, uint64_t> key_turns_;  // of keys that have failed
};

}  // namespace fusewire::collective
