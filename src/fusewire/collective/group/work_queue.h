// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Operations that have something to reduce or to copy. A little is done on the spot, the rest in turns of the loop, the
// most urgent first.
// Home: the endpoint's. Owns: nothing; an operation leaves before it ends. Fails: never.
// An operation is in the queue once, and says so itself (`work_queued`).
#ifndef FUSEWIRE_COLLECTIVE_GROUP_WORK_QUEUE_H_
#define FUSEWIRE_COLLECTIVE_GROUP_WORK_QUEUE_H_

#include <cstddef>
#include <vector>

#include "fusewire/collective/group/group_operation.h"

namespace fusewire {
namespace collective {

class WorkQueue {
 public:
  bool empty() const { return operations_.empty(); }
  size_t size() const { return operations_.size(); }
  // It has work.
  void Add(GroupOperation* operation);
  // One turn of the loop, for one of them, which is returned.
  GroupOperation* RunTurn();
  void Remove(GroupOperation* operation);

 private:
  std::vector<GroupOperation*> operations_;
};

}  // namespace collective
}  // namespace fusewire

#endif  // FUSEWIRE_COLLECTIVE_GROUP_WORK_QUEUE_H_
