// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/receive/receive_lists.h"

#include <utility>
#include "fusewire/base/check.h"

namespace fusewire::tf {
namespace {

// The most graphs with a list, for graphs that are never deregistered.
constexpr size_t kListsMax = 16384;

}  // namespace

ReceiveList::ReceiveList(std::vector<Receive> receives) : receives_(std::move(receives)) {
  index_.reserve(receives_.size());
  for (size_t i = 0; i < receives_.size(); ++i) index_.emplace(receives_[i].key, static_cast<int>(i));
  FUSEWIRE_DCHECK(index_.size() <= receives_.size());
}

int ReceiveList::Find(std::string_view key) const {
  auto found = index_.find(key);
  FUSEWIRE_DCHECK(found == index_.end() || receives_[static_cast<size_t>(found->second)].key == key);
  return found == index_.end() ? -1 : found->second;
}

ReceiveListPtr ReceiveBook::Find(const std::string& graph) {
  MutexLock lock(mutex_);
  auto found = lists_.find(graph);
  return found == lists_.end() ? nullptr : found->second;
}

void ReceiveBook::Learn(const std::string& graph, std::vector<ReceiveList::Receive> more) {
  MutexLock lock(mutex_);
  auto found = lists_.find(graph);
  if (found == lists_.end()) {
    if (lists_.size() >= kListsMax) return;
    found = lists_.emplace(graph, std::make_shared<const ReceiveList>(std::vector<ReceiveList::Receive>())).first;
  }
  // Several steps may have made the same receives.
  std::vector<ReceiveList::Receive> all = found->second->receives();
  for (ReceiveList::Receive& receive : more) {
    if (found->second->Find(receive.key) < 0) all.push_back(std::move(receive));
  }
  found->second = std::make_shared<const ReceiveList>(std::move(all));
}

void ReceiveBook::Forget(const std::string& graph) {
  MutexLock lock(mutex_);
  lists_.erase(graph);
}

}  // namespace fusewire::tf
