// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Records the operations that go over messages, and looks from time to time for which ranks those wait that last.
// Home: the endpoint's. Owns: the timer, and the counts. Fails: never; it does nothing if the group isn't shown.
#pragma once

#include <memory>

#include "fusewire/base/status.h"
#include "fusewire/collective/group/group_monitor.h"
#include "fusewire/collective/group/group_operation.h"
#include "fusewire/collective/group/operation_table.h"
#include "fusewire/collective/group/tally.h"
#include "fusewire/reactor/reactor.h"

namespace fusewire::collective {

class Lookout {
 public:
  Lookout(reactor::Reactor& home, GroupMonitor* shown, const OperationTable* table)
      : home_(home), shown_(shown), table_(table) {}

  // It has its place among all calls.
  void Begin(GroupOperation* operation);
  void End(GroupOperation* operation, const Status& status);
  void Close() { timer_.reset(); }

 private:
  void Arm();
  void Look();

  reactor::Reactor& home_;
  GroupMonitor* const shown_;
  const OperationTable* const table_;
  Tally tally_;
  std::unique_ptr<reactor::Timer> timer_;
};

}  // namespace fusewire::collective
