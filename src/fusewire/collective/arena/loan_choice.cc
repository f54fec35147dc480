// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/arena/loan_choice.h"

#include <algorithm>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"

namespace fusewire {
namespace collective {
namespace {

// The first calls take turns; later, one call of so many goes the other way.
constexpr uint32_t kFirstCalls = 4;
constexpr uint32_t kCallsBetweenTrials = 64;
// A cost is the smallest of the first calls, whose memory is new, and then follows each call by this share of the
// difference. A mean, because a rank may leave shares early, and then waits for the others in its next call; and
// bounded, because a call may also wait for a rank that does something else.
constexpr int64_t kShare = 8;
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

// The call under way is not measured yet.
Way LoanChoice::Next() {
  FUSEWIRE_DCHECK(entry_ != nullptr);
  const uint32_t calls = ++entry_->calls;
  if (rule_ == LoanRule::kAlways) return Way::kLoans;
  if (calls < kFirstCalls) return calls % 2 == 0 ? Way::kLoans : Way::kShares;
  const auto [shares_ns, loans_ns] = entry_->costs_ns;
  const Way better = loans_ns < shares_ns ? Way::kLoans : Way::kShares;
  return calls % kCallsBetweenTrials == 0 ? Other(better) : better;
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
  int64_t& cost_ns = entry->costs_ns[static_cast<size_t>(way_)];
  const int64_t took_ns = std::max<int64_t>(Clock::Real()->NowNs() - since_ns_, 1);
  if (cost_ns == 0 || cost_ns == kRefusedNs || (entry->calls <= kFirstCalls && took_ns < cost_ns)) {
    cost_ns = took_ns;
  } else if (entry->calls > kFirstCalls) {
    cost_ns += (std::min(took_ns, kTimesMax * cost_ns) - cost_ns) / kShare;
  }
}

}  // namespace collective
}  // namespace fusewire
