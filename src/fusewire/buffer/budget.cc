// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/buffer/budget.h"

#include <algorithm>
#include <utility>

#include "fusewire/base/check.h"

namespace fusewire {
namespace {

// The pace makes none of so few holders wait: over a long path each may need far more than the caches hold.
constexpr uint64_t kHoldersMin = 8;

}  // namespace

Budget::~Budget() { FUSEWIRE_CHECK(used_bytes() == 0); }

void Budget::Pace(uint64_t at_once_bytes) {
  MutexLock lock(mutex_);
  at_once_bytes_ = at_once_bytes;
}

bool Budget::Take(uint64_t bytes) {
  MutexLock lock(mutex_);
  taken_bytes_ += bytes;
  SetUsed(used_bytes() + bytes);
  return used_bytes() <= limit_bytes_;
}

void Budget::GiveBack(uint64_t bytes) {
  MutexLock lock(mutex_);
  FUSEWIRE_CHECK(taken_bytes_ >= bytes);
  FUSEWIRE_CHECK(used_bytes() >= bytes);
  taken_bytes_ -= bytes;
  SetUsed(used_bytes() - bytes);
  WakeFirst(false);
}

uint64_t* Budget::SumOf(Stamp stamp) {
  if (stamp.arrived) return stamp.number == arrived_number_ ? &arrived_bytes_ : nullptr;
  return period_ - stamp.number <= 1 ? &periods_[stamp.number % 2].arriving_bytes : nullptr;
}

void Budget::LookAtTime(int64_t now_ns, int64_t idle_ns) {
  if (at_once_bytes_ == 0) return;
  int periods = 0;
  if (idle_ns - period_began_ns_ >= kPaceNs) periods = idle_ns - period_began_ns_ < 2 * kPaceNs ? 1 : 2;
  if (std::exchange(has_returned_, false)) {
    returned_ns_ = now_ns;
  } else if (now_ns - returned_ns_ >= kStuckNs) {
    returned_ns_ = now_ns;
    arrived_bytes_ = 0;
    ++arrived_number_;
    periods = 2;
  }
  for (int i = 0; i < periods; ++i) periods_[++period_ % 2] = Period();
  if (periods > 0) period_began_ns_ = now_ns;
}

bool Budget::Fits(uint64_t bytes) const {
  const uint64_t used = used_bytes();
  return used == taken_bytes_ || (IsInPace() && used <= limit_bytes_ && bytes <= limit_bytes_ - used);
}

bool Budget::IsInPace() const {
  if (at_once_bytes_ == 0) return true;
  const uint64_t recent = periods_[0].arriving_bytes + periods_[1].arriving_bytes + arrived_bytes_;
  const uint64_t largest = std::max(periods_[0].largest_bytes, periods_[1].largest_bytes);
  return recent < std::max(at_once_bytes_, largest < UINT64_MAX / kHoldersMin ? kHoldersMin * largest : largest);
}

void Budget::SetUsed(uint64_t bytes) {
  used_bytes_.store(bytes, std::memory_order_relaxed);
  peak_bytes_.store(std::max(peak_bytes(), bytes), std::memory_order_relaxed);
}

// ---- the queue ----

void Budget::Append(Share* share) {
  share->waits_ = true;
  share->before_ = last_;
  (last_ == nullptr ? first_ : last_->next_) = share;
  last_ = share;
  waiting_.fetch_add(1, std::memory_order_relaxed);
}

void Budget::Remove(Share* share) {
  const bool is_first = share == first_;
  (is_first ? first_ : share->before_->next_) = share->next_;
  (share == last_ ? last_ : share->next_->before_) = share->before_;
  share->before_ = share->next_ = nullptr;
  share->waits_ = share->is_woken_ = false;
  waiting_.fetch_sub(1, std::memory_order_relaxed);
  if (is_first) WakeFirst(true);
}

void Budget::WakeFirst(bool is_new) {
  if (first_ == nullptr || first_->is_woken_ || !first_->on_room_) return;
  if (!is_new && !Fits(first_->wish_bytes_)) return;
  first_->is_woken_ = true;
  first_->on_room_();
}

// ---- a share ----

Budget::Share::~Share() {
  GiveUp();
  if (bytes_ > 0) Release(bytes_);
}

bool Budget::Share::TryReserve(uint64_t bytes, int64_t now_ns, int64_t idle_ns) {
  MutexLock lock(budget_.mutex_);
  budget_.LookAtTime(now_ns, idle_ns);
  Period& now = budget_.periods_[budget_.period_ % 2];
  now.largest_bytes = std::max(now.largest_bytes, bytes);
  is_woken_ = false;
  wish_bytes_ = bytes;
  is_first_ = budget_.first_ == nullptr || budget_.first_ == this;
  if (!is_first_ || !budget_.Fits(bytes)) {
    if (!waits_) budget_.Append(this);
    // Its time may have come by ours.
    if (!is_first_) budget_.WakeFirst(false);
    return false;
  }
  // What it got a moment ago counts anew: both are used together.
  if (uint64_t* sum = budget_.SumOf(stamp_)) {
    *sum -= recent_bytes_;
  } else {
    recent_bytes_ = 0;
  }
  recent_bytes_ += bytes;
  stamp_ = {false, budget_.period_};
  now.arriving_bytes += recent_bytes_;
  now.largest_bytes = std::max(now.largest_bytes, recent_bytes_);
  bytes_ += bytes;
  budget_.SetUsed(budget_.used_bytes() + bytes);
  if (waits_) budget_.Remove(this);
  return true;
}

void Budget::Share::Arrived() {
  if (recent_bytes_ == 0 || stamp_.arrived) return;
  MutexLock lock(budget_.mutex_);
  if (budget_.at_once_bytes_ == 0) return;
  if (uint64_t* sum = budget_.SumOf(stamp_)) *sum -= recent_bytes_;
  stamp_ = {true, budget_.arrived_number_};
  budget_.arrived_bytes_ += recent_bytes_;
}

void Budget::Share::GiveUp() {
  MutexLock lock(budget_.mutex_);
  if (waits_) budget_.Remove(this);
}

void Budget::Share::Release(uint64_t bytes) {
  MutexLock lock(budget_.mutex_);
  FUSEWIRE_CHECK(bytes_ >= bytes);
  FUSEWIRE_DCHECK(budget_.used_bytes() >= bytes);
  bytes_ -= bytes;
  budget_.SetUsed(budget_.used_bytes() - bytes);
  const uint64_t recent = std::min(bytes, recent_bytes_);
  recent_bytes_ -= recent;
  if (uint64_t* sum = budget_.SumOf(stamp_)) *sum -= recent;
  budget_.has_returned_ = true;
  budget_.WakeFirst(false);
}

}  // namespace fusewire
