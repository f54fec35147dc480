// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/arena/arena_meeting.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"
#include "fusewire/reactor/process_limits.h"

namespace fusewire::collective {
namespace {

// How often a sleeper checks the life lines: a dead rank does not ring the bell, and a thread can't sleep on a word and
// on a descriptor at the same time. Nothing else is polled. A death is noticed within 100 ms, with a margin of two. In
// a group this is the second net: members lose their connection to a rank that dies, which closes the arena at once.
constexpr int64_t kDeathLookNs = 50 * kMillisecondNs;
// A process that ends can't be read a little before its life line says so.
constexpr int64_t kEndingNs = 200 * kMillisecondNs;

}  // namespace

ArenaCall ArenaCall::Of(CollectiveKind kind, const Reduction& reduction, int root, uint64_t amount) {
  FUSEWIRE_DCHECK(static_cast<uint8_t>(kind) < kKinds);
  const uint64_t word = static_cast<uint64_t>(kind) | static_cast<uint64_t>(reduction.op) << 8 |
                        static_cast<uint64_t>(reduction.type) << 16 |
                        static_cast<uint64_t>(static_cast<uint32_t>(root)) << 32;
  FUSEWIRE_DCHECK(word != kDeclined);
  return {word, amount};
}

Code ArenaCall::CodeOfDifference() const {
  if (kind_op_type_root != kDeclined) return Code::kInvalid;
  if (amount == static_cast<uint64_t>(Code::kCancelled)) return Code::kCancelled;
  if (amount == static_cast<uint64_t>(Code::kTimeout)) return Code::kTimeout;
  return Code::kInvalid;
}

std::string ArenaCall::Says() const {
  switch (CodeOfDifference()) {
    case Code::kCancelled: return "gave it up before its turn came";
    case Code::kTimeout: return "no longer wants it, since its turn came too late";
    default: return "wants " + Describe();
  }
}

// The words may be a peer's: any number is possible.
std::string ArenaCall::Describe() const {
  const uint64_t word = kind_op_type_root;
  const auto kind = static_cast<CollectiveKind>(word & 0xff);
  const auto root = static_cast<int32_t>(word >> 32);
  if (word == kDeclined) return "a call that can't be made";
  std::string text = KindName(kind);
  if (kind == CollectiveKind::kBarrier) return text;
  const std::string type = TypeName(static_cast<Type>(word >> 16 & 0xff));
  if (Reduces(kind)) text += " " + OpName(static_cast<Op>(word >> 8 & 0xff));
  if (kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduce)
    text += " of " + std::to_string(amount) + " " + type;
  if (kind == CollectiveKind::kBroadcast) text += " of " + std::to_string(amount) + " bytes of " + type;
  if (kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kAllGather || kind == CollectiveKind::kGather ||
      kind == CollectiveKind::kScatter) {
    text += " of " + std::to_string(amount & kPartsBytesMask) + " bytes of " + type + " in parts of digest " +
            std::to_string(amount >> kPartsBytesBits);
  }
  if (kind == CollectiveKind::kAllToAll)
    text += " of " + type + (amount > 0 ? ", " + std::to_string(amount - 1) + " bytes for each" : "");
  if (root >= 0) text += ", root " + std::to_string(root);
  return text;
}

ArenaMeeting::ArenaMeeting(ArenaSeat seat, const ArenaOptions& options)
    : rank_(seat.rank),
      ranks_(seat.ranks),
      options_(options),
      names_(std::move(seat.names)),
      lives_(std::move(seat.lives)),
      waits_(seat.waits) {}

Status ArenaMeeting::Join(int memory) {
  FUSEWIRE_CHECK(stage_ == 0);
  FUSEWIRE_TRY(lives_.Check(rank_, ranks_));
  FUSEWIRE_TRY(memory_.Map(memory, ranks_, options_));
  spins_ = ranks_ <= (options_.cpus > 0 ? options_.cpus : reactor::UsableCpuCount());
  return Status::Ok();
}

std::string ArenaMeeting::NameOf(int rank) const {
  const std::string name = "rank " + std::to_string(rank);
  const auto index = static_cast<size_t>(rank);
  return index < names_.size() ? name + " (" + names_[index] + ")" : name;
}

Status ArenaMeeting::Meet(const ArenaCall& call, int64_t deadline_ns) {
  if (!broken_.ok()) return broken_;
  FUSEWIRE_DCHECK(memory_.mapped());
  ++stage_;
  ArenaPost& mine = memory_.PostOf(rank_, stage_);
  mine.kind_op_type_root.store(call.kind_op_type_root, std::memory_order_relaxed);
  mine.amount.store(call.amount, std::memory_order_relaxed);
  // seq_cst here and at the bell: either this rank sees the sleeper's bit, or the sleeper sees this post.
  mine.progress.store(stage_, std::memory_order_seq_cst);
  int first_missing = 0;
  const bool complete = AllArrived(&first_missing);
  FUSEWIRE_DCHECK(complete == (first_missing == ranks_));
  if (complete && (memory_.header().bell.load(std::memory_order_seq_cst) & 1) != 0) Ring();
  if (!complete) FUSEWIRE_TRY(WaitForAll(call, first_missing, deadline_ns));
  ++counts_.meetings;
  return Compare(call);
}

bool ArenaMeeting::AllArrived(int* first_missing) const {
  while (*first_missing < ranks_) {
    if (memory_.PostOf(*first_missing, stage_).progress.load(std::memory_order_seq_cst) != stage_) return false;
    ++*first_missing;
  }
  return true;
}

uint64_t ArenaMeeting::Missing() const {
  static_assert(kArenaRanksMax <= 64);
  uint64_t missing = 0;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (memory_.PostOf(rank, stage_).progress.load(std::memory_order_relaxed) != stage_) missing |= uint64_t{1} << rank;
  }
  return missing;
}

Status ArenaMeeting::WaitForAll(const ArenaCall& call, int first_missing, int64_t deadline_ns) {
  Clock* const clock = Clock::Real();
  const int64_t since_ns = clock->NowNs();
  const int64_t spin_until_ns = std::min(AddNs(since_ns, spins_ ? options_.spin_ns : 0), deadline_ns);
  const int64_t yield_until_ns = std::min(AddNs(spin_until_ns, options_.yield_ns), deadline_ns);
  int64_t now_ns = since_ns;
  while (now_ns < spin_until_ns) {
    for (int look = 0; look < 32; ++look) {
      if (AllArrived(&first_missing)) return Status::Ok();
      reactor::Pause();
    }
    now_ns = clock->NowNs();
  }
  // The missing rank may be waiting for this processor.
  while (now_ns < yield_until_ns) {
    sched_yield();
    if (AllArrived(&first_missing)) return Status::Ok();
    now_ns = clock->NowNs();
  }
  int64_t look_ns = AddNs(now_ns, kDeathLookNs);
  int64_t ask_ns = cancel_ == nullptr ? kForeverNs : cancel_->NextAskNs(now_ns);
  bool interrupted = false;
  while (!AllArrived(&first_missing)) {
    if (closed()) {
      // The rank that closed it may have arrived before: then this meeting is complete, too.
      if (AllArrived(&first_missing)) return Status::Ok();
      return Break(Status::Cancelled("the arena was closed").Phase(call.Describe()));
    }
    now_ns = clock->NowNs();
    const uint32_t revoked = memory_.header().revoked.load(std::memory_order_relaxed);
    if (now_ns >= look_ns || revoked != revoked_seen_ || now_ns >= deadline_ns) {
      revoked_seen_ = revoked;
      look_ns = AddNs(now_ns, kDeathLookNs);
      FUSEWIRE_TRY(CheckLives(call, since_ns));
    }
    if (cancel_ != nullptr && (interrupted || now_ns >= ask_ns)) {
      if (cancel_->Ask()) return Break(Status::Cancelled("the caller gave it up").Phase(call.Describe()));
      ask_ns = cancel_->NextAskNs(now_ns);
    }
    if (now_ns >= deadline_ns) {
      return Break(Status::Timeout(NameOf(first_missing) + " did not come")
                       .Peer(NameOf(first_missing))
                       .Phase(call.Describe())
                       .AgeMs((now_ns - since_ns) / kMillisecondNs)
                       .Next("find out why that rank is late; then make another arena, or end"));
    }
    if (waits_ != nullptr) waits_->OnWait(since_ns, Missing());
    interrupted =
        !SleepOnBell(std::min({look_ns, ask_ns, deadline_ns}), [&] { return AllArrived(&first_missing) || closed(); });
  }
  if (waits_ != nullptr) waits_->OnWait(since_ns, 0);
  return Status::Ok();
}

template <class Complete>
bool ArenaMeeting::SleepOnBell(int64_t until_ns, Complete complete) {
  uint32_t bell = memory_.header().bell.load(std::memory_order_seq_cst);
  while ((bell & 1) == 0 && !memory_.header().bell.compare_exchange_weak(bell, bell | 1, std::memory_order_seq_cst)) {
  }
  if (complete()) return true;
  const int64_t now_ns = Clock::Real()->NowNs();
  if (now_ns >= until_ns) return true;
  ++counts_.sleeps;
  timespec left{};
  left.tv_sec = (until_ns - now_ns) / kSecondNs;
  left.tv_nsec = (until_ns - now_ns) % kSecondNs;
  // Not FUTEX_PRIVATE: the word is shared between processes. The caller looks again, whatever this returns.
  return syscall(SYS_futex, &memory_.header().bell, FUTEX_WAIT, bell | 1, &left, nullptr, 0) == 0 || errno != EINTR;
}

Status ArenaMeeting::FailToRead(int rank, const ArenaCall& call, const Status& why) {
  if (!broken_.ok()) return broken_;
  const int64_t since_ns = Clock::Real()->NowNs();
  lives_.AwaitEnd(rank, kEndingNs);
  FUSEWIRE_TRY(CheckLives(call, since_ns));
  return Break(Status::Unavailable("the memory of " + NameOf(rank) + " can't be read any more: " + why.cause())
                   .Peer(NameOf(rank))
                   .Phase(call.Describe())
                   .Next("find out what that process has changed (prctl, its user); then make another arena, or end"));
}

void ArenaMeeting::Close() {
  memory_.header().closed.store(1, std::memory_order_seq_cst);
  Ring();
}

bool ArenaMeeting::closed() const { return memory_.header().closed.load(std::memory_order_seq_cst) != 0; }

void ArenaMeeting::Ring() {
  uint32_t bell = memory_.header().bell.load(std::memory_order_seq_cst);
  while (!memory_.header().bell.compare_exchange_weak(bell, (bell + 2) & ~1U, std::memory_order_seq_cst)) {
  }
  syscall(SYS_futex, &memory_.header().bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// Every rank compares with rank 0, so that all ranks come to the same result.
Status ArenaMeeting::Compare(const ArenaCall& mine) {
  auto called = [this](int rank) {
    const ArenaPost& post = memory_.PostOf(rank, stage_);
    ArenaCall call;
    call.kind_op_type_root = post.kind_op_type_root.load(std::memory_order_relaxed);
    call.amount = post.amount.load(std::memory_order_relaxed);
    return call;
  };
  for (int rank = 0; rank < ranks_; ++rank) {
    // Not this rank's own post: others can write into it, too.
    if (rank == rank_ || called(rank) == mine) continue;
    const ArenaCall first = rank_ == 0 ? mine : called(0);
    int other = 1;
    ArenaCall differs = called(other);
    while (other + 1 < ranks_ && differs == first) differs = called(++other);
    ++counts_.differences;
    const Code code =
        first.CodeOfDifference() != Code::kInvalid ? first.CodeOfDifference() : differs.CodeOfDifference();
    const std::string advice = code == Code::kInvalid ? "make the same calls in the same order on all ranks; " : "";
    return Status(code, NameOf(0) + " " + first.Says() + ", " + NameOf(other) + " " + differs.Says())
        .Peer(rank_ == 0 ? NameOf(other) : NameOf(0))
        .Phase(mine.Describe())
        .Next(advice + "no array was changed, and the group stays usable");
  }
  return Status::Ok();
}

Status ArenaMeeting::CheckLives(const ArenaCall& call, int64_t since_ns) {
  std::string dead;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (rank != rank_ && lives_.HasEnded(rank)) dead += (dead.empty() ? "" : ", ") + NameOf(rank);
  }
  if (dead.empty()) return Status::Ok();
  return Break(Status::Unavailable(dead + " ended")
                   .Peer(dead)
                   .Phase(call.Describe())
                   .AgeMs((Clock::Real()->NowNs() - since_ns) / kMillisecondNs)
                   .Next("make another arena of the ranks that are left, or end"));
}

// Wakes the others, and each checks the life lines itself: a rank does not trust another one's word about a death.
Status ArenaMeeting::Break(Status why) {
  FUSEWIRE_DCHECK(!why.ok());
  FUSEWIRE_DCHECK(broken_.ok());
  broken_ = std::move(why);
  memory_.header().revoked.fetch_add(1, std::memory_order_seq_cst);
  Ring();
  return broken_;
}

}  // namespace fusewire::collective
