// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/arena/loans.h"

#include <utility>

#include "fusewire/base/bytes.h"
#include "fusewire/base/check.h"
#include "fusewire/transport/shm/others_memory.h"

namespace fusewire::collective {
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
