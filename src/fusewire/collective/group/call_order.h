// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Matches an operation with those of the other ranks: by its turn in the order of calls, or by its key. After a
// failure, a key continues under another tag. Home: the endpoint's. Owns: the turns and keys of this epoch. Fails:
// never. Turns below turn_ have ended, are under way, or are in skipped_, which holds turns that are still to come.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "fusewire/base/status.h"
#include "fusewire/collective/group/group_operation.h"
#include "fusewire/collective/run/fingerprint.h"
#include "fusewire/p2p/endpoint.h"
#include "fusewire/reactor/completion.h"

namespace fusewire::collective {

// The tags of a group's messages: each name and epoch has its own range, so that no message of another group or of an
// old epoch can reach an operation.
// Home: any thread, plain values. Owns: the name's hash.
//   tag := 1:1 hash of name and epoch:23 keyed:1 (turn or hash of key and failures):39
//          of control messages: epoch 0, the last tag
class GroupTags {
 public:
  explicit GroupTags(const std::string& name) : name_(name) {}

  // The first and the last tag of an epoch.
  uint64_t First(uint32_t epoch) const;
  uint64_t Last(uint32_t epoch) const;
  uint64_t Control() const { return Last(0); }
  uint64_t Of(uint32_t epoch, const Fingerprint& place) const;

 private:
  const std::string name_;
};

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

// The tags of operations that have failed here: later messages with such a tag are refused with the reason, and those
// that were kept unexpectedly are discarded.
// Home: the endpoint's. Owns: the last 4,096 reasons, and the receives that discard messages.
class FailedTags {
 public:
  // `under_way` counts the receives that have not ended.
  FailedTags(p2p::Endpoint& endpoint, reactor::Drain* under_way) : endpoint_(endpoint), under_way_(under_way) {}

  void Add(uint64_t tag, const Status& why);
  // Null: no operation has failed here under this tag.
  const Status* Find(uint64_t tag) const;
  void Clear();

 private:
  void ThrowAway(uint64_t tag);
  void PostToThrowAway(p2p::ReceiveOp* receive);

  p2p::Endpoint& endpoint_;
  reactor::Drain* const under_way_;
  std::unordered_map<uint64_t, Status> reasons_;
  std::deque<uint64_t> order_;  // the tags of reasons_, the oldest first
  std::list<std::unique_ptr<p2p::ReceiveOp>> receives_;
};

}  // namespace fusewire::collective
