// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The operations that have data to reduce or to copy. A little is done immediately, the rest in turns of the loop, the
// most urgent first.
// Home: the endpoint's. Owns: nothing; an operation is removed before it ends.
// An operation is in the queue at most once: exactly if its `work_queued` is set.
#pragma once

#include <cstddef>
#include <vector>

#include "fusewire/collective/group/group_operation.h"

namespace fusewire::collective {

class WorkQueue {
 public:
  bool empty() const { return operations_.empty(); }
  size_t size() const { return operations_.size(); }
  // Does a little of its work, and queues it if there is more.
  void Add(GroupOperation* operation);
  // Does one turn's work of the most urgent operation, and returns it.
  GroupOperation* RunTurn();
  void Remove(GroupOperation* operation);

 private:
  std::vector<GroupOperation*> operations_;
};

}  // namespace fusewire::collective
