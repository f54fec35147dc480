// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/state/inventory.h"

#include <utility>

namespace fusewire::tf {

bool Inventory::Learn(const tensorflow::GraphDef& graph) {
  Findings found = FindHoldings(graph);
  if (!found.obstacle.empty()) return SetObstacle(found.obstacle);
  for (Holding& holding : found.holdings) Add(std::move(holding));
  return false;
}

bool Inventory::SetObstacle(const std::string& obstacle) {
  MutexLock lock(mutex_);
  const bool is_first = obstacle_.empty();
  if (is_first) obstacle_ = obstacle;
  return is_first;
}

void Inventory::Add(Holding holding) {
  MutexLock lock(mutex_);
  holdings_.insert(std::move(holding));
}

void Inventory::Clear() {
  MutexLock lock(mutex_);
  holdings_.clear();
}

std::vector<Holding> Inventory::holdings() {
  MutexLock lock(mutex_);
  return {holdings_.begin(), holdings_.end()};
}

std::string Inventory::obstacle() {
  MutexLock lock(mutex_);
  return obstacle_;
}

}  // namespace fusewire::tf
