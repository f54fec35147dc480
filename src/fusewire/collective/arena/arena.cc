// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/arena/arena.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"
#include "fusewire/collective/arena/arena_layout.h"
#include "fusewire/reactor/cpus.h"

namespace fusewire {
namespace collective {
namespace {

// A dead rank is noticed when a sleeper wakes to look: half of what would be 100 ms, twice within that.
constexpr int64_t kLookNs = 50 * kMillisecondNs;
constexpr size_t kSlotBytesMin = 64 * 1024;  // 48 ranks get a slice of a page and more
constexpr size_t kSlotBytesMax = 64 << 20;

size_t RoundUp(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

void Relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Which events say that a life line has ended: of a pipe or a socket its end, of a pidfd that it can be read.
int16_t LifeEvents(int fd) {
  struct stat about {};
  const bool stream = fstat(fd, &about) == 0 && (S_ISSOCK(about.st_mode) || S_ISFIFO(about.st_mode));
  const int16_t ended = POLLHUP | POLLERR | POLLNVAL | POLLRDHUP;
  return stream ? ended : static_cast<int16_t>(ended | POLLIN);
}

Status CheckSize(int ranks, const ArenaOptions& options) {
  if (ranks < 1 || ranks > kArenaRanksMax) {
    return Status::Invalid("an arena of " + std::to_string(ranks) + " ranks")
        .Next("1 to " + std::to_string(kArenaRanksMax) + " ranks of one host share an arena");
  }
  if (options.slot_bytes < kSlotBytesMin || options.slot_bytes > kSlotBytesMax ||
      options.slot_bytes % kArenaPageBytes != 0) {
    return Status::Invalid("slots of " + std::to_string(options.slot_bytes) + " bytes")
        .Next("slot_bytes is a multiple of 4096 between 64 KiB and 64 MiB");
  }
  return Status::Ok();
}

}  // namespace

namespace {

struct Offsets {
  size_t posts, votes, tables, slots, end;
};

template <class RankPosts, class Vote, class Table>
Offsets OffsetsOf(size_t ranks, size_t slot_bytes) {
  Offsets at{};
  at.posts = kArenaPageBytes;
  at.votes = at.posts + ranks * sizeof(RankPosts);
  at.tables = at.votes + ranks * sizeof(Vote);
  at.slots = RoundUp(at.tables + ranks * kTurns * sizeof(Table), kArenaPageBytes);
  at.end = at.slots + ranks * kTurns * slot_bytes;
  return at;
}

}  // namespace

size_t Arena::BytesOf(int ranks, size_t slot_bytes) {
  return OffsetsOf<RankPosts, Vote, Table>(static_cast<size_t>(ranks), slot_bytes).end;
}

size_t ArenaBytes(int ranks, const ArenaOptions& options) { return Arena::BytesOf(ranks, options.slot_bytes); }

Result<int> CreateArenaMemory(int ranks, const ArenaOptions& options) {
  FUSEWIRE_TRY(CheckSize(ranks, options));
  const int fd = memfd_create("fusewire-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return Status::FromErrno(Code::kOverloaded, "memfd_create", errno).Phase("making an arena");
  const auto bytes = static_cast<off_t>(ArenaBytes(ranks, options));
  if (ftruncate(fd, bytes) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    const Status why = Status::FromErrno(Code::kOverloaded, "ftruncate", errno).Phase("making an arena");
    close(fd);
    return why;
  }
  Status written = Arena::WriteHeader(fd, ranks, options);
  if (written.ok()) return fd;
  close(fd);
  return written;
}

Status Arena::WriteHeader(int fd, int ranks, const ArenaOptions& options) {
  void* page = mmap(nullptr, kArenaPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) return Status::FromErrno(Code::kOverloaded, "mmap", errno).Phase("making an arena");
  auto* header = static_cast<Header*>(page);
  header->magic = kArenaMagic;
  header->ranks = static_cast<uint64_t>(ranks);
  header->slot_bytes = options.slot_bytes;
  header->one_shot_bytes = options.one_shot_bytes;
  munmap(page, kArenaPageBytes);
  return Status::Ok();
}

Result<std::unique_ptr<Arena>> Arena::Join(ArenaSeat seat, const ArenaOptions& options) {
  std::unique_ptr<Arena> arena(new Arena);
  arena->lives_ = std::move(seat.lives);  // from here on they are closed whatever happens
  FUSEWIRE_TRY(CheckSize(seat.ranks, options));
  const bool fits = seat.rank >= 0 && seat.rank < seat.ranks;
  if (!fits || arena->lives_.size() != static_cast<size_t>(seat.ranks)) {
    return Status::Invalid("seat " + std::to_string(seat.rank) + " of " + std::to_string(seat.ranks) + " with " +
                           std::to_string(arena->lives_.size()) + " life lines")
        .Next("give each rank a number below ranks, and a life line for every rank (-1 for oneself)");
  }
  for (int other = 0; other < seat.ranks; ++other) {
    const int life = arena->lives_[static_cast<size_t>(other)];
    if (other != seat.rank && life < 0) {
      return Status::Invalid("rank " + std::to_string(other) + " has no life line")
          .Next("give a socket, pipe or pidfd that ends with it");
    }
    arena->life_events_.push_back(life < 0 ? int16_t{0} : LifeEvents(life));
    arena->seats_.push_back(other);
  }
  arena->names_ = std::move(seat.names);
  arena->options_ = options;
  arena->seat_ = arena->rank_ = seat.rank;
  FUSEWIRE_TRY(arena->Map(seat, options));
  arena->SetRanks();
  return arena;
}

Status Arena::Map(const ArenaSeat& seat, const ArenaOptions& options) {
  const auto ranks = static_cast<size_t>(seat.ranks);
  const Offsets at = OffsetsOf<RankPosts, Vote, Table>(ranks, options.slot_bytes);
  struct stat about {};
  const int seals = fcntl(seat.memory, F_GET_SEALS);
  // Memory that a peer may cut short would end us with a signal in the middle of a copy.
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(seat.memory, &about) != 0 ||
      about.st_size != static_cast<off_t>(at.end)) {
    return Status::Refused("the arena's memory is not sealed, or not " + std::to_string(at.end) + " bytes long")
        .Phase("joining an arena")
        .Next("give all ranks the descriptor of CreateArenaMemory, and the same number of ranks and slot_bytes");
  }
  void* memory = mmap(nullptr, at.end, PROT_READ | PROT_WRITE, MAP_SHARED, seat.memory, 0);
  if (memory == MAP_FAILED) return Status::FromErrno(Code::kOverloaded, "mmap", errno).Phase("joining an arena");
  memory_ = static_cast<uint8_t*>(memory);
  memory_bytes_ = at.end;
  header_ = reinterpret_cast<Header*>(memory_);
  posts_ = reinterpret_cast<RankPosts*>(memory_ + at.posts);
  votes_ = reinterpret_cast<Vote*>(memory_ + at.votes);
  tables_ = reinterpret_cast<Table*>(memory_ + at.tables);
  slots_ = memory_ + at.slots;
  // Ranks that cut arrays in different ways would wait for meetings that the others never hold.
  if (header_->magic != kArenaMagic || header_->ranks != ranks || header_->slot_bytes != options.slot_bytes ||
      header_->one_shot_bytes != options.one_shot_bytes) {
    return Status::Refused("this memory is no arena of " + std::to_string(ranks) + " ranks")
        .Phase("joining an arena")
        .Next("give all ranks the descriptor of CreateArenaMemory, and the same options");
  }
  seats_at_first_ = seat.ranks;
  return Status::Ok();
}

Arena::~Arena() {
  for (const int life : lives_) {
    if (life >= 0) close(life);
  }
  if (memory_ != nullptr) munmap(memory_, memory_bytes_);
}

void Arena::SetRanks() {
  const int cpus = options_.cpus > 0 ? options_.cpus : reactor::UsableCpuCount();
  spins_ = ranks() <= cpus;
  one_shot_bytes_ = options_.one_shot_bytes;
  if (one_shot_bytes_ == 0) one_shot_bytes_ = 16 * 1024;
  one_shot_bytes_ = std::min(one_shot_bytes_, options_.slot_bytes);
}

uint8_t* Arena::SlotOf(int rank, uint64_t stage) const {
  const auto seat = static_cast<size_t>(seats_[static_cast<size_t>(rank)]);
  return slots_ + (stage % kTurns * static_cast<size_t>(seats_at_first_) + seat) * options_.slot_bytes;
}

Arena::Post& Arena::PostOf(int rank, uint64_t stage) const {
  return posts_[seats_[static_cast<size_t>(rank)]].of[stage % kTurns];
}

Arena::Table& Arena::TableOf(int rank, uint64_t stage) const {
  return tables_[static_cast<size_t>(seats_[static_cast<size_t>(rank)]) * kTurns + stage % kTurns];
}

std::string Arena::NameOf(int rank) const {
  const int seat = seats_[static_cast<size_t>(rank)];
  std::string name = "rank " + std::to_string(rank);
  if (static_cast<size_t>(seat) < names_.size()) return name + " (" + names_[static_cast<size_t>(seat)] + ")";
  if (seat != rank) name += " (seat " + std::to_string(seat) + ")";
  return name;
}

// --- meetings ---

Status Arena::Meet(const What& what, int64_t deadline_ns) {
  if (!broken_.ok()) return broken_;
  ++stage_;
  Post& mine = PostOf(rank_, stage_);
  mine.kind_op_type_root.store(what.kind_op_type_root, std::memory_order_relaxed);
  mine.amount.store(what.amount, std::memory_order_relaxed);
  // seq_cst here and at the bell: either I see the sleeper's bit, or the sleeper sees my post.
  mine.progress.store(Progress(), std::memory_order_seq_cst);
  int first_missing = 0;
  const bool complete = AllArrived(&first_missing);
  if (complete && (header_->bell.load(std::memory_order_seq_cst) & 1) != 0) Ring();
  if (!complete) FUSEWIRE_TRY(WaitForAll(what, first_missing, deadline_ns));
  ++counts_.meetings;
  return Compare(what);
}

bool Arena::AllArrived(int* first_missing) const {
  const uint64_t progress = Progress();
  while (*first_missing < ranks()) {
    if (PostOf(*first_missing, stage_).progress.load(std::memory_order_seq_cst) != progress) return false;
    ++*first_missing;
  }
  return true;
}

Status Arena::WaitForAll(const What& what, int first_missing, int64_t deadline_ns) {
  Clock* const clock = Clock::Real();
  const int64_t since_ns = clock->NowNs();
  const int64_t spin_until_ns = std::min(AddNs(since_ns, spins_ ? options_.spin_ns : 0), deadline_ns);
  const int64_t yield_until_ns = std::min(AddNs(spin_until_ns, options_.yield_ns), deadline_ns);
  int64_t now_ns = since_ns;
  while (now_ns < spin_until_ns) {
    for (int look = 0; look < 32; ++look) {
      if (AllArrived(&first_missing)) return Status::Ok();
      Relax();
    }
    now_ns = clock->NowNs();
  }
  // Whoever is missing may be waiting for this very processor.
  while (now_ns < yield_until_ns) {
    sched_yield();
    if (AllArrived(&first_missing)) return Status::Ok();
    now_ns = clock->NowNs();
  }
  int64_t look_ns = AddNs(now_ns, kLookNs);
  while (!AllArrived(&first_missing)) {
    if (closed()) {
      // Whoever closed it may have met us before: then we have met, too.
      if (AllArrived(&first_missing)) return Status::Ok();
      return Break(Status::Cancelled("the arena was closed").Phase(Describe(what)));
    }
    now_ns = clock->NowNs();
    const uint32_t revoked = header_->revoked.load(std::memory_order_relaxed);
    if (now_ns >= look_ns || revoked != revoked_seen_ || now_ns >= deadline_ns) {
      revoked_seen_ = revoked;
      look_ns = AddNs(now_ns, kLookNs);
      FUSEWIRE_TRY(CheckLives(what, since_ns));
      if (called_off_ != nullptr && (*called_off_)())
        return Break(Status::Cancelled("the caller gave it up").Phase(Describe(what)));
    }
    if (now_ns >= deadline_ns) {
      return Break(Status::Timeout(NameOf(first_missing) + " did not come")
                       .Peer(NameOf(first_missing))
                       .Phase(Describe(what))
                       .AgeMs((now_ns - since_ns) / kMillisecondNs)
                       .Next("look at what it does; then Shrink() and go on, or end"));
    }
    SleepOnBell(std::min(look_ns, deadline_ns), [&] { return AllArrived(&first_missing) || closed(); });
  }
  return Status::Ok();
}

template <class Complete>
void Arena::SleepOnBell(int64_t until_ns, Complete complete) {
  uint32_t bell = header_->bell.load(std::memory_order_seq_cst);
  while ((bell & 1) == 0 && !header_->bell.compare_exchange_weak(bell, bell | 1, std::memory_order_seq_cst)) {
  }
  if (complete()) return;
  const int64_t now_ns = Clock::Real()->NowNs();
  if (now_ns >= until_ns) return;
  ++counts_.sleeps;
  timespec left{};
  left.tv_sec = (until_ns - now_ns) / kSecondNs;
  left.tv_nsec = (until_ns - now_ns) % kSecondNs;
  // Not private: the word is shared between processes. Whatever it returns, the caller looks again.
  syscall(SYS_futex, &header_->bell, FUTEX_WAIT, bell | 1, &left, nullptr, 0);
}

Status Arena::Decline(int64_t deadline_ns) {
  What nothing;
  nothing.kind_op_type_root = ~uint64_t{0};
  return Meet(nothing, deadline_ns);
}

void Arena::Close() {
  header_->closed.store(1, std::memory_order_seq_cst);
  Ring();
}

bool Arena::closed() const { return header_->closed.load(std::memory_order_seq_cst) != 0; }

void Arena::Ring() {
  uint32_t bell = header_->bell.load(std::memory_order_seq_cst);
  while (!header_->bell.compare_exchange_weak(bell, (bell + 2) & ~1U, std::memory_order_seq_cst)) {
  }
  syscall(SYS_futex, &header_->bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

Arena::What Arena::WhatOf(Kind kind, const Reduction& reduction, int root, uint64_t amount) {
  What what;
  what.kind_op_type_root = static_cast<uint64_t>(kind) | static_cast<uint64_t>(reduction.op) << 8 |
                           static_cast<uint64_t>(reduction.type) << 16 |
                           static_cast<uint64_t>(static_cast<uint32_t>(root)) << 32;
  what.amount = amount;
  return what;
}

// In the words of who reads the log. Any number may stand there.
std::string Arena::Describe(const What& what) {
  const uint64_t word = what.kind_op_type_root;
  const auto kind = static_cast<Kind>(word & 0xff);
  const auto root = static_cast<int32_t>(word >> 32);
  if (word == ~uint64_t{0}) return "a call that can't be made";
  std::string text = KindName(kind);
  if (kind == Kind::kBarrier) return text;
  const std::string type = TypeName(static_cast<Type>(word >> 16 & 0xff));
  if (Reduces(kind)) text += " " + OpName(static_cast<Op>(word >> 8 & 0xff));
  if (kind == Kind::kAllReduce || kind == Kind::kReduce) text += " of " + std::to_string(what.amount) + " " + type;
  if (kind == Kind::kBroadcast) text += " of " + std::to_string(what.amount) + " bytes of " + type;
  if (kind == Kind::kReduceScatter || kind == Kind::kAllGather || kind == Kind::kGather || kind == Kind::kScatter) {
    text += " of " + std::to_string(what.amount & kPartsBytesMask) + " bytes of " + type + " in parts of digest " +
            std::to_string(what.amount >> kPartsBytesBits);
  }
  if (kind == Kind::kAllToAll) text += " of " + type;
  if (root >= 0) text += ", root " + std::to_string(root);
  return text;
}

// Everybody compares with rank 0, so that everybody comes to the same end.
Status Arena::Compare(const What& mine) const {
  auto wants = [this](int rank) {
    const Post& post = PostOf(rank, stage_);
    What what;
    what.kind_op_type_root = post.kind_op_type_root.load(std::memory_order_relaxed);
    what.amount = post.amount.load(std::memory_order_relaxed);
    return what;
  };
  for (int rank = 0; rank < ranks(); ++rank) {
    if (rank == rank_) continue;  // others can write there, too
    const What theirs = wants(rank);
    if (theirs.kind_op_type_root == mine.kind_op_type_root && theirs.amount == mine.amount) continue;
    const What first = rank_ == 0 ? mine : wants(0);
    int other = 1;
    What differs = wants(other);
    while (other + 1 < ranks() && differs.kind_op_type_root == first.kind_op_type_root &&
           differs.amount == first.amount) {
      differs = wants(++other);
    }
    return Status::Invalid(NameOf(0) + " wants " + Describe(first) + ", " + NameOf(other) + " wants " +
                           Describe(differs))
        .Peer(rank_ == 0 ? NameOf(other) : NameOf(0))
        .Phase(Describe(mine))
        .Next("make the same calls in the same order on all ranks; nothing was changed, and the group may go on");
  }
  return Status::Ok();
}

// --- death ---

uint64_t Arena::AliveSeats() const {
  uint64_t alive = uint64_t{1} << seat_;
  for (const int seat : seats_) {
    if (seat == seat_) continue;
    const auto index = static_cast<size_t>(seat);
    pollfd life{lives_[index], static_cast<int16_t>(POLLIN | POLLRDHUP), 0};
    const int ready = poll(&life, 1, 0);
    if (ready <= 0 || (life.revents & life_events_[index]) == 0) alive |= uint64_t{1} << seat;
  }
  return alive;
}

Status Arena::CheckLives(const What& what, int64_t since_ns) {
  const uint64_t alive = AliveSeats();
  std::string dead;
  for (int rank = 0; rank < ranks(); ++rank) {
    if ((alive >> seats_[static_cast<size_t>(rank)] & 1) == 0) dead += (dead.empty() ? "" : ", ") + NameOf(rank);
  }
  if (dead.empty()) return Status::Ok();
  return Break(Status::Unavailable(dead + " ended")
                   .Peer(dead)
                   .Phase(Describe(what))
                   .AgeMs((Clock::Real()->NowNs() - since_ns) / kMillisecondNs)
                   .Next("Shrink() and go on with those who are left, or end"));
}

// The others are woken to look for themselves: nobody believes a peer that another is dead.
Status Arena::Break(Status why) {
  broken_ = std::move(why);
  header_->revoked.fetch_add(1, std::memory_order_seq_cst);
  Ring();
  return broken_;
}

Status Arena::Shrink(int64_t deadline_ns) {
  Clock* const clock = Clock::Real();
  uint64_t epoch = epoch_ + 1;
  uint64_t voted = 0;
  while (true) {
    const uint64_t alive = AliveSeats();
    bool agreed = true;
    int missing = seat_;
    for (const int seat : seats_) {
      if ((alive >> seat & 1) == 0 || seat == seat_) continue;
      const uint64_t vote = votes_[seat].word.load(std::memory_order_seq_cst);
      // Who has already left with an older count of the living waits for us in a later epoch.
      if (vote >> 48 > epoch) epoch = vote >> 48;
      if (vote == ((epoch << 48) | alive)) continue;
      agreed = false;
      missing = seat;
    }
    if (epoch > 0xffff) return Status::Overloaded("65535 epochs are used up").Next("start the group anew");
    const uint64_t mine = (epoch << 48) | alive;
    if (mine != voted) {
      votes_[seat_].word.store(mine, std::memory_order_seq_cst);
      voted = mine;
      Ring();
      continue;  // look at all of them once more, with this vote cast
    }
    if (agreed) return Renumber(epoch, alive);
    const int64_t now_ns = clock->NowNs();
    if (now_ns >= deadline_ns) {
      return Status::Timeout("seat " + std::to_string(missing) + " did not agree on who is left")
          .Peer("seat " + std::to_string(missing))
          .Phase("shrinking the group")
          .Next("all survivors must call Shrink(); call it again, or end");
    }
    SleepOnBell(std::min(AddNs(now_ns, kLookNs), deadline_ns),
                [&] { return votes_[missing].word.load(std::memory_order_seq_cst) == mine; });
  }
}

Status Arena::Renumber(uint64_t epoch, uint64_t alive) {
  std::vector<int> left;
  for (const int seat : seats_) {
    if ((alive >> seat & 1) == 0) continue;
    if (seat == seat_) rank_ = static_cast<int>(left.size());
    left.push_back(seat);
  }
  seats_ = std::move(left);
  epoch_ = epoch;
  stage_ = 0;
  broken_ = Status::Ok();
  SetRanks();
  return Status::Ok();
}

}  // namespace collective
}  // namespace fusewire
