// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/receive/plans.h"

#include <utility>
#include "fusewire/base/check.h"

namespace fusewire {
namespace tf {
namespace {

// Of graphs that nobody has deregistered: more are not remembered.
constexpr size_t kPlansMax = 16384;

}  // namespace

Plan::Plan(std::vector<Receive> receives) : receives_(std::move(receives)) {
  index_.reserve(receives_.size());
  for (size_t i = 0; i < receives_.size(); ++i) index_.emplace(receives_[i].key, static_cast<int>(i));
  FUSEWIRE_DCHECK(index_.size() <= receives_.size());
}

int Plan::Find(std::string_view key) const {
  auto found = index_.find(key);
  FUSEWIRE_DCHECK(found == index_.end() || receives_[static_cast<size_t>(found->second)].key == key);
  return found == index_.end() ? -1 : found->second;
}

PlanPtr PlanBook::Find(const std::string& graph) {
  MutexLock lock(mutex_);
  auto found = plans_.find(graph);
  return found == plans_.end() ? nullptr : found->second;
}

void PlanBook::Learn(const std::string& graph, std::vector<Plan::Receive> more) {
  MutexLock lock(mutex_);
  auto found = plans_.find(graph);
  if (found == plans_.end()) {
    if (plans_.size() >= kPlansMax) return;
    found = plans_.emplace(graph, std::make_shared<const Plan>(std::vector<Plan::Receive>())).first;
  }
  // Several steps may have met the same.
  std::vector<Plan::Receive> all = found->second->receives();
  for (Plan::Receive& receive : more) {
    if (found->second->Find(receive.key) < 0) all.push_back(std::move(receive));
  }
  found->second = std::make_shared<const Plan>(std::move(all));
}

void PlanBook::Forget(const std::string& graph) {
  MutexLock lock(mutex_);
  plans_.erase(graph);
}

}  // namespace tf
}  // namespace fusewire
