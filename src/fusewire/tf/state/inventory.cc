// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/state/inventory.h"

#include <utility>

namespace fusewire::tf {

bool Inventory::Learn(const tensorflow::GraphDef& graph, bool is_marked) {
  Findings found = FindHoldings(graph);
  if (!found.obstacle.empty()) return SetObstacle(found.obstacle);
  for (Holding& holding : found.holdings) {
    WriteMarks* marks = Add(std::move(holding));
    if (!is_marked) marks->AlwaysWhole();
  }
  return false;
}

bool Inventory::SetObstacle(const std::string& obstacle) {
  MutexLock lock(mutex_);
  const bool is_first = obstacle_.empty();
  if (is_first) obstacle_ = obstacle;
  return is_first;
}

WriteMarks* Inventory::Add(Holding holding) {
  MutexLock lock(mutex_);
  std::unique_ptr<WriteMarks>& marks = holdings_[std::move(holding)];
  if (marks == nullptr) marks = std::make_unique<WriteMarks>();
  return marks.get();
}

void Inventory::Clear() {
  MutexLock lock(mutex_);
  holdings_.clear();
}

std::vector<std::pair<Holding, WriteMarks*>> Inventory::holdings() {
  std::vector<std::pair<Holding, WriteMarks*>> all;
  MutexLock lock(mutex_);
  for (const auto& [holding, marks] : holdings_) all.emplace_back(holding, marks.get());
  return all;
}

WriteMarks* Inventory::MarksOf(const Holding& holding) {
  MutexLock lock(mutex_);
  const auto found = holdings_.find(holding);
  return found == holdings_.end() ? nullptr : found->second.get();
}

void Inventory::MarkAll() {
  MutexLock lock(mutex_);
  for (const auto& one : holdings_) one.second->Whole();
}

std::string Inventory::obstacle() {
  MutexLock lock(mutex_);
  return obstacle_;
}

}  // namespace fusewire::tf
