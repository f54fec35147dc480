// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/group/failed_tags.h"

#include <algorithm>
#include <utility>

#include "fusewire/base/check.h"

namespace fusewire {
namespace collective {
namespace {

constexpr size_t kTagsMax = 4096;

}  // namespace

void FailedTags::Add(uint64_t tag, const Status& why) {
  FUSEWIRE_DCHECK(!why.ok());
  if (reasons_.emplace(tag, why).second) order_.push_back(tag);
  if (order_.size() > kTagsMax) {
    reasons_.erase(order_.front());
    order_.pop_front();
  }
  FUSEWIRE_DCHECK(order_.size() == reasons_.size());
  Drain(tag);
}

const Status* FailedTags::Find(uint64_t tag) const {
  const auto found = reasons_.find(tag);
  return found == reasons_.end() ? nullptr : &found->second;
}

void FailedTags::Clear() {
  reasons_.clear();
  order_.clear();
}

bool FailedTags::idle() const {
  return std::all_of(drains_.begin(), drains_.end(), [](const auto& drain) { return drain->Test(); });
}

void FailedTags::Drain(uint64_t tag) {
  drains_.remove_if([](const std::unique_ptr<p2p::ReceiveOp>& drain) { return drain->Test(); });
  while (true) {
    auto drain = std::make_unique<p2p::ReceiveOp>(endpoint_, nullptr, tag);
    drain->timeout_ns = kForeverNs;
    drain->Post();
    if (!drain->Test()) {
      drain->Cancel();
      drains_.push_back(std::move(drain));
      return;
    }
    // It took one, which was too large for it; or the endpoint takes no more.
    if (!drain->status().ok() && drain->status().code() != Code::kInvalid) return;
  }
}

}  // namespace collective
}  // namespace fusewire
