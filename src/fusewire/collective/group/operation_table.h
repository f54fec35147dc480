// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Every operation that is at home, and its state. Only the table changes states, and it checks each change.
//   idle -> running (Run), behind (Queue), ended (EndIdle)     behind -> ended (EndBehind), idle (TakeBehind)
//   running -> ended (End)                                     ended -> idle (TakeEnded)
//   idle -> served (SetServed, the lane's) -> ended (EndServed)
// Home: the endpoint's. Owns: the operations, and their deadlines.
// At most one operation is running under a tag; others of the tag are behind only while one is running, or has ended
// and has not been taken.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "fusewire/base/status.h"
#include "fusewire/collective/group/group_operation.h"
#include "fusewire/reactor/reactor.h"

namespace fusewire::collective {

class OperationTable {
 public:
  using Operation = std::unique_ptr<GroupOperation>;
  OperationTable(reactor::Reactor& home, std::function<void(GroupOperation*)> on_deadline)
      : home_(home), on_deadline_(std::move(on_deadline)) {}

  // Adds it under its tag; the caller ends it later.
  GroupOperation* Run(Operation operation);
  void Queue(Operation operation);
  void End(GroupOperation* operation, const Status& status);
  void EndIdle(Operation operation, const Status& status);
  // For an operation that the lane has run; EndServed follows when it has come home.
  static void SetServed(GroupOperation* operation);
  void EndServed(Operation operation);
  // False: it is not behind another one.
  bool EndBehind(const GroupOperation& operation, const Status& status);
  void EndAllBehind(const Status& status);

  // Null: there is none.
  GroupOperation* Running(uint64_t tag) const;
  GroupOperation* RunningByNumber(uint64_t number) const;
  GroupOperation* BehindByNumber(uint64_t number) const;
  // An operation that has ended under this tag, and has not been taken.
  const GroupOperation* Ended(uint64_t tag) const;
  std::vector<GroupOperation*> AllRunning() const;
  template <class Visit>
  void ForRunning(Visit visit) const {
    for (const auto& [tag, operation] : running_) visit(operation.get());
  }
  bool has_ended() const { return !ended_.empty(); }

  std::vector<Operation> TakeEnded();
  std::vector<Operation> TakeBehind(uint64_t tag);

  void ArmDeadline(GroupOperation* operation, int64_t delay_ns);

 private:
  static void Change(GroupOperation* operation, GroupOperation::State from, GroupOperation::State to);
  void PutEnded(Operation operation, const Status& status);

  reactor::Reactor& home_;
  const std::function<void(GroupOperation*)> on_deadline_;
  std::unordered_map<uint64_t, Operation> running_;              // by tag
  std::unordered_map<uint64_t, std::vector<Operation>> behind_;  // by tag; none is empty
  std::vector<Operation> ended_;
};

}  // namespace fusewire::collective
