// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Records and counts the operations of a group, in an arena and over messages, for `fusewire top`, `why` and `trace`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fusewire/base/status.h"
#include "fusewire/collective/arena/arena_meeting.h"
#include "fusewire/collective/group/call_order.h"
#include "fusewire/collective/group/group_monitor.h"
#include "fusewire/collective/group/group_operation.h"
#include "fusewire/collective/group/operation_table.h"
#include "fusewire/reactor/reactor.h"

namespace fusewire::collective {

// Records the operations of an arena. A small one takes less time than its record: it is counted, and recorded
// only once it waits for longer than its spin, or while somebody reads the records. Home: the thread that
// serves the lane. Owns: the record of the operation under way.
class ArenaRecorder final : public ArenaWaits {
 public:
  ArenaRecorder(GroupMonitor* monitor, const std::string& group_name) : monitor_(monitor), tags_(group_name) {}

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

  GroupMonitor* const monitor_;
  const GroupTags tags_;
  Tally tally_;
  const GroupOperation* operation_ = nullptr;
  OpRecord record_;
};

// Records operations that go over messages: from time to time, also for which ranks the long ones wait. Home: the
// endpoint's. Owns: the timer, and the counts. It does nothing if the group isn't shown.
class MessageRecorder {
 public:
  MessageRecorder(reactor::Reactor& home, GroupMonitor* monitor, const OperationTable* table)
      : home_(home), monitor_(monitor), table_(table) {}

  // It has its place among all calls.
  void Begin(GroupOperation* operation);
  void End(GroupOperation* operation, const Status& status);
  void Close() { timer_.reset(); }

 private:
  void Arm();
  void Look();

  reactor::Reactor& home_;
  GroupMonitor* const monitor_;
  const OperationTable* const table_;
  Tally tally_;
  std::unique_ptr<reactor::Timer> timer_;
};

}  // namespace fusewire::collective
