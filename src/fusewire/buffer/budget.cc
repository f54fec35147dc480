// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/buffer/budget.h"

#include <algorithm>

#include "fusewire/base/check.h"

namespace fusewire {

Budget::~Budget() { FUSEWIRE_CHECK(used_bytes() == 0); }

bool Budget::TryReserve(uint64_t bytes, const void* holder) {
  MutexLock lock(mutex_);
  auto place = std::find(queue_.begin(), queue_.end(), holder);
  bool first = queue_.empty() || place == queue_.begin();
  uint64_t used = used_bytes();
  bool fits = used == taken_bytes_ || (used <= limit_bytes_ && bytes <= limit_bytes_ - used);
  if (!first || !fits) {
    if (place == queue_.end()) queue_.push_back(holder);
    waiting_.store(queue_.size(), std::memory_order_relaxed);
    return false;
  }
  if (place != queue_.end()) queue_.erase(place);
  waiting_.store(queue_.size(), std::memory_order_relaxed);
  used_bytes_.store(used + bytes, std::memory_order_relaxed);
  peak_bytes_.store(std::max(peak_bytes(), used + bytes), std::memory_order_relaxed);
  return true;
}

void Budget::GiveUp(const void* holder) {
  MutexLock lock(mutex_);
  auto place = std::find(queue_.begin(), queue_.end(), holder);
  if (place != queue_.end()) queue_.erase(place);
  waiting_.store(queue_.size(), std::memory_order_relaxed);
}

void Budget::Release(uint64_t bytes) {
  MutexLock lock(mutex_);
  FUSEWIRE_CHECK(used_bytes() >= bytes);
  used_bytes_.store(used_bytes() - bytes, std::memory_order_relaxed);
}

bool Budget::Take(uint64_t bytes) {
  MutexLock lock(mutex_);
  taken_bytes_ += bytes;
  const uint64_t used = used_bytes() + bytes;
  used_bytes_.store(used, std::memory_order_relaxed);
  peak_bytes_.store(std::max(peak_bytes(), used), std::memory_order_relaxed);
  return used <= limit_bytes_;
}

void Budget::GiveBack(uint64_t bytes) {
  MutexLock lock(mutex_);
  FUSEWIRE_CHECK(taken_bytes_ >= bytes);
  taken_bytes_ -= bytes;
  FUSEWIRE_CHECK(used_bytes() >= bytes);
  used_bytes_.store(used_bytes() - bytes, std::memory_order_relaxed);
}

}  // namespace fusewire
