// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The operations that have data to reduce or to copy. A little is done immediately, the rest in turns of the loop, one
// operation after the other, so that small ones pass the large.
// Home: the endpoint's. Owns: nothing; an operation is removed before it ends.
// An operation is in the queue at most once: exactly if its `work_queued` is set.
#pragma once

#include <deque>

#include "fusewire/collective/group/group_operation.h"

namespace fusewire::collective {

class WorkQueue {
 public:
  bool empty() const { return operations_.empty(); }
  // Does a little of its work, and queues it if there is more.
  void Add(GroupOperation* operation);
  // Does one turn's work of the next operation, and returns it.
  GroupOperation* RunTurn();
  void Remove(GroupOperation* operation);

 private:
  std::deque<GroupOperation*> operations_;
};

}  // namespace fusewire::collective
