// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/arena/loans.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "fusewire/base/bytes.h"
#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"
#include "fusewire/transport/shm/peer_process.h"

namespace fusewire::collective {

namespace {

// A way is tried with this many calls in a row: in the first ones its memory is new or not cached, so they don't count.
constexpr uint32_t kTrial = 8;
constexpr uint32_t kSettling = 3;
// After both have been tried, the slower way is tried again once in this many calls.
constexpr uint32_t kCycle = 256;
// A cost follows each call by this part of the difference, with a trial's few calls faster. It is a mean, because a
// rank may leave shares early, and then waits for the others in its next call; and one call counts at most so many
// times the mean, because it may also wait for a rank that does something else.
constexpr int64_t kPart = 8, kPartOfTrial = 2;
constexpr int64_t kTimesMax = 2;
// The cost of a loan that was refused: the way is tried again in its turn, and then measured anew.
constexpr int64_t kRefusedNs = 3600 * kSecondNs;

Way Other(Way way) { return way == Way::kLoans ? Way::kShares : Way::kLoans; }

}  // namespace

Way LoanChoice::Begin(CollectiveKind kind, size_t bytes) {
  entry_ =
      &entries_[static_cast<size_t>(kind)][std::min<size_t>(static_cast<size_t>(std::bit_width(bytes)), kSizes - 1)];
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
namespace {

// Whether all of it is one array, which another rank can read by its address.
bool InOnePiece(const Pieces& pieces) { return pieces.count() == 1 || pieces.bytes() == 0; }
uint64_t AddressOf(const Pieces& pieces) {
  return pieces.bytes() == 0 ? 0 : reinterpret_cast<uint64_t>(pieces.at(0).data);
}

}  // namespace

Loans::Loans(ArenaMeeting* meeting, std::vector<pid_t> processes, LoanRule rule)
    : meeting_(meeting), processes_(std::move(processes)), rule_(rule), choice_(meeting->rank(), rule) {}

Result<Way> Loans::Begin(const ArenaCall& call, CollectiveKind kind, size_t bytes, size_t part_bytes,
                         int64_t deadline_ns) {
  if (meeting_->ranks() == 1 || part_bytes < kLoanBytesMin || bytes > kLoanBytesMax) return Way::kShares;
  if (!tried_) FUSEWIRE_TRY(Try(call, deadline_ns));
  return can_ ? choice_.Begin(kind, bytes) : Way::kShares;
}

// Two meetings: each rank shows a word of its memory; then, whether it can read all others'.
Status Loans::Try(const ArenaCall& call, int64_t deadline_ns) {
  const int rank = meeting_->rank();
  ArenaTable& probe = meeting_->TableOf(rank, meeting_->next_stage());
  probe.from.store(transport::ProbeAddress(), std::memory_order_relaxed);
  probe.to.store(transport::ProbeWord(), std::memory_order_relaxed);
  FUSEWIRE_TRY(meeting_->Meet(call, deadline_ns));
  bool can = true;
  for (int other = 0; other < meeting_->ranks(); ++other)
    can = can && CanRead(other, meeting_->TableOf(other, meeting_->stage()));
  meeting_->TableOf(rank, meeting_->next_stage()).lends.store(can ? 1 : 0, std::memory_order_relaxed);
  FUSEWIRE_TRY(meeting_->Meet(call, deadline_ns));
  for (int other = 0; other < meeting_->ranks(); ++other) {
    if (other != rank && meeting_->TableOf(other, meeting_->stage()).lends.load(std::memory_order_relaxed) == 0)
      can = false;
  }
  tried_ = true;
  can_ = can;
  return Status::Ok();
}

bool Loans::CanRead(int rank, const ArenaTable& table) const {
  if (rule_ == LoanRule::kNever || processes_.empty()) return false;
  if (rank == meeting_->rank()) return true;
  FUSEWIRE_CHECK(static_cast<size_t>(rank) < processes_.size());
  return transport::CanReadOrLog(processes_[static_cast<size_t>(rank)], table.from.load(std::memory_order_relaxed),
                                 table.to.load(std::memory_order_relaxed));
}

Status Loans::MeetFirst(const ArenaCall& call, int64_t deadline_ns) {
  if (!choice_.has_to_agree()) return meeting_->Meet(call, deadline_ns);
  if (meeting_->rank() == 0) {
    const auto next = static_cast<uint64_t>(choice_.Next());
    meeting_->TableOf(0, meeting_->next_stage()).next_way.store(next, std::memory_order_relaxed);
  }
  FUSEWIRE_TRY(meeting_->Meet(call, deadline_ns));
  choice_.Agree(meeting_->TableOf(0, meeting_->stage()).next_way.load(std::memory_order_relaxed));
  return Status::Ok();
}

void Loans::Offer(const Pieces& from, const Pieces& to, bool readable) {
  ArenaTable& mine = meeting_->TableOf(meeting_->rank(), meeting_->next_stage());
  const bool lends = readable && InOnePiece(from) && InOnePiece(to);
  mine.from.store(lends ? AddressOf(from) : 0, std::memory_order_relaxed);
  mine.to.store(lends ? AddressOf(to) : 0, std::memory_order_relaxed);
  mine.lends.store(lends ? 1 : 0, std::memory_order_relaxed);
}

bool Loans::AllLend(uint64_t stage, LoanPlaces* places) {
  bool all = true;
  for (int rank = 0; rank < meeting_->ranks(); ++rank) {
    const ArenaTable& table = meeting_->TableOf(rank, stage);
    const auto index = static_cast<size_t>(rank);
    places->from[index] = table.from.load(std::memory_order_relaxed);
    places->to[index] = table.to.load(std::memory_order_relaxed);
    all = all && table.lends.load(std::memory_order_relaxed) != 0;
  }
  if (!all) choice_.OnRefused();
  return all;
}

Status Loans::Read(const ArenaCall& call, int rank, uint64_t address, uint8_t* to, size_t bytes) {
  FUSEWIRE_DCHECK(rank != meeting_->rank());
  if (bytes == 0) return Status::Ok();
  meeting_->counts().lent_bytes += bytes;
  const Status read = transport::ReadOthers(processes_[static_cast<size_t>(rank)], address, Bytes(to, bytes));
  return read.ok() ? read : meeting_->FailToRead(rank, call, read);
}

}  // namespace fusewire::collective
