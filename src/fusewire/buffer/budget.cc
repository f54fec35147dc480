// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/buffer/budget.h"

#include <algorithm>

#include "fusewire/base/check.h"

namespace fusewire {
namespace {

// The pace makes none of so few holders wait: over a long path each may need far more than the caches hold.
constexpr uint64_t kHoldersMin = 8;

}  // namespace

// ---- the pace ----

uint64_t* Pace::SumOf(const Recent& recent) {
  if (recent.arrived) return recent.number == arrived_number_ ? &arrived_bytes_ : nullptr;
  return period_ - recent.number <= 1 ? &periods_[recent.number % 2].arriving_bytes : nullptr;
}

void Pace::LookAtTime(int64_t now_ns, int64_t idle_ns) {
  if (!is_set()) return;
  int periods = 0;
  if (idle_ns - period_began_ns_ >= kPeriodNs) periods = idle_ns - period_began_ns_ < 2 * kPeriodNs ? 1 : 2;
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

bool Pace::IsInPace() const {
  if (!is_set()) return true;
  const uint64_t recent = periods_[0].arriving_bytes + periods_[1].arriving_bytes + arrived_bytes_;
  const uint64_t largest = std::max(periods_[0].largest_bytes, periods_[1].largest_bytes);
  return recent < std::max(at_once_bytes_, largest < UINT64_MAX / kHoldersMin ? kHoldersMin * largest : largest);
}

void Pace::Ask(uint64_t bytes) { now().largest_bytes = std::max(now().largest_bytes, bytes); }

void Pace::Grant(Recent* recent, uint64_t bytes) {
  if (!is_set()) return;
  uint64_t* sum = SumOf(*recent);
  const uint64_t before = sum == nullptr ? 0 : recent->bytes;
  if (sum != nullptr) *sum -= before;
  *recent = {before + bytes, false, period_};
  now().arriving_bytes += recent->bytes;
  now().largest_bytes = std::max(now().largest_bytes, recent->bytes);
}

void Pace::Arrived(Recent* recent) {
  if (uint64_t* sum = SumOf(*recent)) *sum -= recent->bytes;
  *recent = {recent->bytes, true, arrived_number_};
  arrived_bytes_ += recent->bytes;
}

void Pace::Return(Recent* recent, uint64_t bytes) {
  const uint64_t less = std::min(bytes, recent->bytes);
  if (uint64_t* sum = SumOf(*recent)) *sum -= less;
  recent->bytes -= less;
  has_returned_ = true;
}

// ---- the budget ----

Budget::~Budget() { FUSEWIRE_CHECK(used_bytes() == 0); }

void Budget::SetPace(uint64_t at_once_bytes) {
  MutexLock lock(mutex_);
  pace_.Set(at_once_bytes);
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

bool Budget::Fits(uint64_t bytes) const {
  const uint64_t used = used_bytes();
  return used == taken_bytes_ || (pace_.IsInPace() && used <= limit_bytes_ && bytes <= limit_bytes_ - used);
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
  budget_.pace_.LookAtTime(now_ns, idle_ns);
  budget_.pace_.Ask(bytes);
  is_woken_ = false;
  wish_bytes_ = bytes;
  is_first_ = budget_.first_ == nullptr || budget_.first_ == this;
  if (!is_first_ || !budget_.Fits(bytes)) {
    if (!waits_) budget_.Append(this);
    // Its time may have come by ours.
    if (!is_first_) budget_.WakeFirst(false);
    return false;
  }
  budget_.pace_.Grant(&recent_, bytes);
  bytes_ += bytes;
  budget_.SetUsed(budget_.used_bytes() + bytes);
  if (waits_) budget_.Remove(this);
  return true;
}

void Budget::Share::Arrived() {
  if (recent_.bytes == 0 || recent_.arrived) return;
  MutexLock lock(budget_.mutex_);
  budget_.pace_.Arrived(&recent_);
}

void Budget::Share::Used(uint64_t bytes) {
  if (recent_.bytes == 0) return;
  MutexLock lock(budget_.mutex_);
  budget_.pace_.Return(&recent_, bytes);
  budget_.WakeFirst(false);
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
  budget_.pace_.Return(&recent_, recent_.bytes - std::min(recent_.bytes, bytes_));
  budget_.WakeFirst(false);
}

}  // namespace fusewire
