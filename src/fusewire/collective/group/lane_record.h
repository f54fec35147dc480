// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Records and counts the operations of an arena. A small one takes less time than its record: it is counted, and
// recorded only once it waits for longer than its spin, or while somebody reads the records. Home: the thread that
// serves the lane. Owns: the record of the operation under way.
#pragma once

#include <cstdint>
#include <string>

#include "fusewire/collective/arena/arena_meeting.h"
#include "fusewire/collective/group/group_monitor.h"
#include "fusewire/collective/group/group_operation.h"
#include "fusewire/collective/group/group_tags.h"
#include "fusewire/collective/group/op_record.h"
#include "fusewire/collective/group/tally.h"

namespace fusewire::collective {

class LaneRecord final : public ArenaWaits {
 public:
  LaneRecord(GroupMonitor* shown, const std::string& group_name) : shown_(shown), tags_(group_name) {}

  // Null: its caller has left it, and only its turn is served.
  void Begin(const GroupOperation* operation) {
    operation_ = operation;
    if (operation == nullptr) return;
    if (BytesOf(operation->spec) >= kWholeBytesMin || observe::TakeShortOp()) Open(Clock::Real()->NowNs());
  }
  // `ran`: it has ended here; otherwise it goes on over messages.
  void End(bool ran) {
    const GroupOperation* const operation = operation_;
    operation_ = nullptr;
    if (operation == nullptr) return;
    const bool is_ok = ran && operation->status.ok();
    const uint64_t bytes = is_ok ? BytesOf(operation->spec) : 0;
    if (is_ok) tally_.Add(bytes);
    if (record_.begun()) record_.End(is_ok || !ran, bytes);
  }
  void OnWait(int64_t since_ns, uint64_t missing) override;

 private:
  // From this size on, an operation takes a hundred times as long as its record.
  static constexpr size_t kWholeBytesMin = 64 * 1024;
  void Open(int64_t now_ns);

  GroupMonitor* const shown_;
  const GroupTags tags_;
  Tally tally_;
  const GroupOperation* operation_ = nullptr;
  OpRecord record_;
};

}  // namespace fusewire::collective
