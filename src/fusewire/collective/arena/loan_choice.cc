// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/arena/loan_choice.h"

#include <algorithm>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"

namespace fusewire::collective {
namespace {

// A way is tried with so many calls in a row: the first ones find its memory outside the caches, or new, and don't
// count.
constexpr uint32_t kTrial = 8;
constexpr uint32_t kSettling = 3;
// After both have been tried, the dearer way is tried again at the beginning of each so many calls.
constexpr uint32_t kCycle = 256;
// A cost follows each call by this part of the difference, with a trial's few calls faster. It is a mean, because a
// rank may leave shares early, and then waits for the others in its next call; and one call counts at most so many
// times the mean, because it may also wait for a rank that does something else.
constexpr int64_t kPart = 8, kPartOfTrial = 2;
constexpr int64_t kTimesMax = 2;
// What a loan costs that was refused: it is tried again when its turn comes, and then measured anew.
constexpr int64_t kRefusedNs = 3600 * kSecondNs;

size_t SizeClass(size_t bytes) {
  size_t bits = 0;
  while (bytes >> bits != 0 && bits < 63) ++bits;
  return bits;
}

Way Other(Way way) { return way == Way::kLoans ? Way::kShares : Way::kLoans; }

}  // namespace

Way LoanChoice::Begin(CollectiveKind kind, size_t bytes) {
  entry_ = &entries_[static_cast<size_t>(kind)][SizeClass(bytes)];
  way_ = entry_->way;
  agreed_ = false;
  if (rank_ == 0) since_ns_ = Clock::Real()->NowNs();
  return way_;
}

Way LoanChoice::Next() {
  FUSEWIRE_DCHECK(entry_ != nullptr);
  if (rule_ == LoanRule::kAlways) return Way::kLoans;
  const uint32_t next = entry_->calls++ + 1;
  if (next < kTrial) return Way::kLoans;
  if (next < 2 * kTrial) return Way::kShares;
  const uint32_t at = next % kCycle;
  const bool tries = at < kTrial;
  if (next == 2 * kTrial || at == kTrial) {
    const auto [shares_ns, loans_ns] = entry_->costs_ns;
    entry_->better = loans_ns < shares_ns ? Way::kLoans : Way::kShares;
  }
  return tries ? Other(entry_->better) : entry_->better;
}

void LoanChoice::Agree(uint64_t next) {
  FUSEWIRE_DCHECK(has_to_agree());
  agreed_ = true;
  entry_->way = next == static_cast<uint64_t>(Way::kLoans) ? Way::kLoans : Way::kShares;
}

void LoanChoice::OnRefused() {
  FUSEWIRE_DCHECK(way_ == Way::kLoans);
  if (entry_ != nullptr) entry_->costs_ns[static_cast<size_t>(Way::kLoans)] = kRefusedNs;
  entry_ = nullptr;
}

void LoanChoice::End() {
  Entry* const entry = std::exchange(entry_, nullptr);
  if (entry == nullptr || rank_ != 0) return;
  entry->in_a_row = way_ == entry->last ? entry->in_a_row + 1 : 1;
  entry->last = way_;
  if (entry->in_a_row <= kSettling) return;
  int64_t& cost_ns = entry->costs_ns[static_cast<size_t>(way_)];
  const int64_t took_ns = std::max<int64_t>(Clock::Real()->NowNs() - since_ns_, 1);
  if (cost_ns == 0 || cost_ns == kRefusedNs) {
    cost_ns = took_ns;
  } else {
    const int64_t part = entry->in_a_row <= kTrial ? kPartOfTrial : kPart;
    cost_ns += (std::min(took_ns, kTimesMax * cost_ns) - cost_ns) / part;
  }
}

}  // namespace fusewire::collective
