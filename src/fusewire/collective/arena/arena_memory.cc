// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/arena/arena_memory.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "fusewire/base/clock.h"

namespace fusewire::collective {

namespace {

// The poll events that mean the end: a hang-up of a pipe or a socket; a pidfd becomes readable.
int16_t LifeEvents(int fd) {
  struct stat about {};
  const bool stream = fstat(fd, &about) == 0 && (S_ISSOCK(about.st_mode) || S_ISFIFO(about.st_mode));
  const int16_t ended = POLLHUP | POLLERR | POLLNVAL | POLLRDHUP;
  return stream ? ended : static_cast<int16_t>(ended | POLLIN);
}

}  // namespace

LifeLines::LifeLines(std::vector<int> lives) : lives_(std::move(lives)) {
  for (const int life : lives_) events_.push_back(life < 0 ? int16_t{0} : LifeEvents(life));
  FUSEWIRE_DCHECK(events_.size() == lives_.size());
}

LifeLines::~LifeLines() {
  for (const int life : lives_) {
    if (life >= 0) close(life);
  }
}

Status LifeLines::Check(int own, int ranks) const {
  if (own < 0 || own >= ranks || lives_.size() != static_cast<size_t>(ranks)) {
    return Status::Invalid("the seat has `rank` " + std::to_string(own) + ", `ranks` " + std::to_string(ranks) +
                           " and " + std::to_string(lives_.size()) + " `lives`")
        .Next("give a rank below `ranks`, and a life line for every rank (-1 for this one)");
  }
  for (int other = 0; other < ranks; ++other) {
    if (other == own || lives_[static_cast<size_t>(other)] >= 0) continue;
    return Status::Invalid("rank " + std::to_string(other) + " has no life line")
        .Next("give a socket, pipe or pidfd that ends with that rank");
  }
  return Status::Ok();
}

bool LifeLines::Look(int rank, int timeout_ms) const {
  const auto index = static_cast<size_t>(rank);
  FUSEWIRE_DCHECK(index < lives_.size());
  FUSEWIRE_DCHECK(lives_[index] >= 0);  // a rank does not ask about itself
  pollfd life{lives_[index], static_cast<int16_t>(events_[index] & (POLLIN | POLLRDHUP)), 0};
  return poll(&life, 1, timeout_ms) > 0 && (life.revents & events_[index]) != 0;
}

bool LifeLines::HasEnded(int rank) const { return Look(rank, 0); }

void LifeLines::AwaitEnd(int rank, int64_t patience_ns) const {
  Look(rank, static_cast<int>(patience_ns / kMillisecondNs));
}

namespace {

constexpr size_t kShareBytesMin = 64 * 1024;  // 48 ranks get a slice of a page and more
constexpr size_t kShareBytesMax = 64 << 20;

size_t RoundUp(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

Status CheckSize(int ranks, const ArenaOptions& options) {
  if (ranks < 1 || ranks > kArenaRanksMax) {
    return Status::Invalid("`ranks` of an arena is " + std::to_string(ranks))
        .Next("1 to " + std::to_string(kArenaRanksMax) + " ranks of one host share an arena");
  }
  if (options.share_bytes < kShareBytesMin || options.share_bytes > kShareBytesMax ||
      options.share_bytes % kArenaPageBytes != 0) {
    return Status::Invalid("share_bytes is " + std::to_string(options.share_bytes))
        .Next("share_bytes is a multiple of 4096 between 64 KiB and 64 MiB");
  }
  return Status::Ok();
}

struct Offsets {
  size_t posts, tables, shares, end;
};

Offsets OffsetsOf(size_t ranks, size_t share_bytes) {
  Offsets at{};
  at.posts = kArenaPageBytes;
  at.tables = at.posts + ranks * sizeof(ArenaPosts);
  at.shares = RoundUp(at.tables + ranks * kTurns * sizeof(ArenaTable), kArenaPageBytes);
  at.end = at.shares + ranks * kTurns * share_bytes;
  FUSEWIRE_DCHECK(at.tables % kCacheLineBytes == 0);
  FUSEWIRE_DCHECK(at.shares % kArenaPageBytes == 0);
  return at;
}

Status WriteHeader(int fd, int ranks, const ArenaOptions& options) {
  void* page = mmap(nullptr, kArenaPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) return Status::FromErrno(Code::kOverloaded, "mmap", errno).Phase("making an arena");
  auto* header = static_cast<ArenaHeader*>(page);
  header->magic = kArenaMagic;
  header->ranks = static_cast<uint64_t>(ranks);
  header->share_bytes = options.share_bytes;
  header->one_shot_bytes = options.one_shot_bytes;
  munmap(page, kArenaPageBytes);
  return Status::Ok();
}

}  // namespace

size_t ArenaBytes(int ranks, const ArenaOptions& options) {
  return OffsetsOf(static_cast<size_t>(ranks), options.share_bytes).end;
}

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
  Status written = WriteHeader(fd, ranks, options);
  if (written.ok()) return fd;
  close(fd);
  return written;
}

Status ArenaMemory::Map(int fd, int ranks, const ArenaOptions& options) {
  FUSEWIRE_CHECK(memory_ == nullptr);
  FUSEWIRE_TRY(CheckSize(ranks, options));
  ranks_ = static_cast<size_t>(ranks);
  share_bytes_ = options.share_bytes;
  const Offsets at = OffsetsOf(ranks_, share_bytes_);
  struct stat about {};
  const int seals = fcntl(fd, F_GET_SEALS);
  // If a peer could truncate the memory, a copy would end this process with a signal.
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &about) != 0 ||
      about.st_size != static_cast<off_t>(at.end)) {
    return Status::Refused("the arena's memory is not sealed, or not " + std::to_string(at.end) + " bytes long")
        .Phase("joining an arena")
        .Next("give all ranks the descriptor of CreateArenaMemory, and the same number of ranks and share_bytes");
  }
  void* memory = mmap(nullptr, at.end, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return Status::FromErrno(Code::kOverloaded, "mmap", errno).Phase("joining an arena");
  memory_ = static_cast<uint8_t*>(memory);
  bytes_ = at.end;
  header_ = reinterpret_cast<ArenaHeader*>(memory_);
  posts_ = reinterpret_cast<ArenaPosts*>(memory_ + at.posts);
  tables_ = reinterpret_cast<ArenaTable*>(memory_ + at.tables);
  shares_ = memory_ + at.shares;
  FUSEWIRE_DCHECK(shares_ + ranks_ * kTurns * share_bytes_ == memory_ + bytes_);
  // Ranks that cut arrays differently would wait for meetings that the others never reach.
  if (header_->magic != kArenaMagic || header_->ranks != ranks_ || header_->share_bytes != share_bytes_ ||
      header_->one_shot_bytes != options.one_shot_bytes) {
    return Status::Refused("the header of the memory is not that of an arena of " + std::to_string(ranks) + " ranks")
        .Phase("joining an arena")
        .Next("give all ranks the descriptor of CreateArenaMemory, and the same options");
  }
  return Status::Ok();
}

ArenaMemory::~ArenaMemory() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

}  // namespace fusewire::collective
