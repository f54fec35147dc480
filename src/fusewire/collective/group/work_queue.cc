// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/group/work_queue.h"

#include <algorithm>

#include "fusewire/base/check.h"

namespace fusewire::collective {
namespace {

// The work of one turn of the loop: some hundred microseconds. Less than the second is done immediately.
constexpr size_t kWorkBytesMax = 1024 * 1024;
constexpr size_t kSmallWorkBytesMax = 64 * 1024;

}  // namespace

void WorkQueue::Add(GroupOperation* operation) {
  FUSEWIRE_DCHECK(operation->runner != nullptr);
  if (operation->work_queued || !operation->runner->Work(kSmallWorkBytesMax)) return;
  FUSEWIRE_DCHECK(operation->state == GroupOperation::State::kRunning);
  operation->work_queued = true;
  operations_.push_back(operation);
}

GroupOperation* WorkQueue::RunTurn() {
  FUSEWIRE_CHECK(!empty());
  GroupOperation* operation = operations_.front();
  FUSEWIRE_DCHECK(operation->work_queued);
  operations_.pop_front();
  operation->work_queued = operation->runner->Work(kWorkBytesMax);
  if (operation->work_queued) operations_.push_back(operation);
  return operation;
}

void WorkQueue::Remove(GroupOperation* operation) {
  if (!operation->work_queued) return;
  operation->work_queued = false;
  const auto found = std::find(operations_.begin(), operations_.end(), operation);
  FUSEWIRE_CHECK(found != operations_.end());
  operations_.erase(found);
}

}  // namespace fusewire::collective
