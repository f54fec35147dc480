// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/group/operation_table.h"

#include <algorithm>
#include <utility>

#include "fusewire/base/check.h"

namespace fusewire::collective {

using State = GroupOperation::State;

void OperationTable::Change(GroupOperation* operation, State from, State to) {
  FUSEWIRE_CHECK(operation->state == from);
  operation->state = to;
}

GroupOperation* OperationTable::Run(Operation operation) {
  Change(operation.get(), State::kIdle, State::kRunning);
  FUSEWIRE_CHECK(operation->number != 0);
  Operation& place = running_[operation->tag];
  FUSEWIRE_CHECK(place == nullptr);
  place = std::move(operation);
  return place.get();
}

void OperationTable::Queue(Operation operation) {
  FUSEWIRE_DCHECK(Running(operation->tag) != nullptr);
  Change(operation.get(), State::kIdle, State::kBehind);
  behind_[operation->tag].push_back(std::move(operation));
}

void OperationTable::PutEnded(Operation operation, const Status& status) {
  if (operation->deadline != nullptr) reactor::Reactor::Disarm(operation->deadline.get());
  FUSEWIRE_CHECK(operation->state == State::kEnded);
  operation->status = status;
  ended_.push_back(std::move(operation));
}

void OperationTable::End(GroupOperation* operation, const Status& status) {
  Change(operation, State::kRunning, State::kEnded);
  const auto found = running_.find(operation->tag);
  FUSEWIRE_CHECK(found != running_.end());
  FUSEWIRE_CHECK(found->second.get() == operation);
  PutEnded(std::move(found->second), status);
  running_.erase(found);
}

void OperationTable::EndIdle(Operation operation, const Status& status) {
  Change(operation.get(), State::kIdle, State::kEnded);
  PutEnded(std::move(operation), status);
}

void OperationTable::SetServed(GroupOperation* operation) { Change(operation, State::kIdle, State::kServed); }

void OperationTable::EndServed(Operation operation) {
  Change(operation.get(), State::kServed, State::kEnded);
  const Status status = operation->status;
  PutEnded(std::move(operation), status);
}

bool OperationTable::EndBehind(const GroupOperation& operation, const Status& status) {
  const auto behind = behind_.find(operation.tag);
  if (behind == behind_.end()) return false;
  const auto found = std::find_if(behind->second.begin(), behind->second.end(),
                                  [&operation](const Operation& one) { return one.get() == &operation; });
  if (found == behind->second.end()) return false;
  Change(found->get(), State::kBehind, State::kEnded);
  PutEnded(std::move(*found), status);
  behind->second.erase(found);
  if (behind->second.empty()) behind_.erase(behind);
  return true;
}

void OperationTable::EndAllBehind(const Status& status) {
  for (auto& [tag, waiting] : behind_) {
    for (Operation& operation : waiting) {
      Change(operation.get(), State::kBehind, State::kEnded);
      PutEnded(std::move(operation), status);
    }
  }
  behind_.clear();
}

GroupOperation* OperationTable::Running(uint64_t tag) const {
  const auto found = running_.find(tag);
  FUSEWIRE_DCHECK(found == running_.end() || found->second->state == State::kRunning);
  return found == running_.end() ? nullptr : found->second.get();
}

GroupOperation* OperationTable::RunningByNumber(uint64_t number) const {
  for (const auto& [tag, operation] : running_) {
    if (operation->number == number) return operation.get();
  }
  return nullptr;
}

GroupOperation* OperationTable::BehindByNumber(uint64_t number) const {
  for (const auto& [tag, waiting] : behind_) {
    for (const Operation& operation : waiting) {
      if (operation->number == number) return operation.get();
    }
  }
  return nullptr;
}

const GroupOperation* OperationTable::Ended(uint64_t tag) const {
  const auto found =
      std::find_if(ended_.begin(), ended_.end(), [tag](const Operation& operation) { return operation->tag == tag; });
  return found == ended_.end() ? nullptr : found->get();
}

std::vector<GroupOperation*> OperationTable::AllRunning() const {
  std::vector<GroupOperation*> all;
  all.reserve(running_.size());
  for (const auto& [tag, operation] : running_) all.push_back(operation.get());
  return all;
}

std::vector<OperationTable::Operation> OperationTable::TakeEnded() {
  std::vector<Operation> ended = std::exchange(ended_, {});
  for (Operation& operation : ended) Change(operation.get(), State::kEnded, State::kIdle);
  return ended;
}

std::vector<OperationTable::Operation> OperationTable::TakeBehind(uint64_t tag) {
  const auto found = behind_.find(tag);
  if (found == behind_.end()) return {};
  std::vector<Operation> waiting = std::move(found->second);
  behind_.erase(found);
  for (Operation& operation : waiting) Change(operation.get(), State::kBehind, State::kIdle);
  return waiting;
}

void OperationTable::ArmDeadline(GroupOperation* operation, int64_t delay_ns) {
  if (operation->deadline == nullptr) {
    operation->deadline = std::make_unique<reactor::Timer>([this, operation] { on_deadline_(operation); });
  }
  home_.Arm(operation->deadline.get(), delay_ns);
}

}  // namespace fusewire::collective
