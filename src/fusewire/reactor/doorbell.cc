// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/reactor/doorbell.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <new>
#include <string>
#include <string_view>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace fusewire::reactor {
namespace {

// A file in memory of one page that nobody can truncate: a mapping of it stays valid.
int MakePage(const char* name) {
  int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd >= 0 && ftruncate(fd, kDoorbellPageBytes) == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

void* MapPage(int fd, int protection) {
  void* page = mmap(nullptr, kDoorbellPageBytes, protection, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) return nullptr;
  (void)madvise(page, kDoorbellPageBytes, MADV_DONTFORK);
  return page;
}

bool IsSealedPage(int fd) {
  struct stat is = {};
  int seals = fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && fstat(fd, &is) == 0 &&
         is.st_size == static_cast<off_t>(kDoorbellPageBytes);
}

// Writing to one never blocks.
bool IsEventFd(int fd) {
  char path[64], target[64];
  std::snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  ssize_t length = readlink(path, target, sizeof(target));
  if (length <= 0 || std::string_view(target, static_cast<size_t>(length)) != "anon_inode:[eventfd]") return false;
  int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_NONBLOCK) != 0;
}

}  // namespace

// ---- the reactor's end ----

Doorbell::Doorbell(Home& home) : home_(home) {}

Result<std::unique_ptr<Doorbell>> Doorbell::Make(Home& home) {
  std::unique_ptr<Doorbell> bell(new Doorbell(home));
  FUSEWIRE_TRY(bell->Open());
  return bell;
}

Status Doorbell::Open() {
  files_.rung = MakePage("fusewire-rung");
  files_.asleep = MakePage("fusewire-asleep");
  files_.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  bool made = files_.rung >= 0 && files_.asleep >= 0 && files_.event >= 0;
  void* rung = made ? MapPage(files_.rung, PROT_READ | PROT_WRITE) : nullptr;
  if (rung != nullptr) rung_page_ = ::new (rung) RungPage();
  void* asleep = made ? MapPage(files_.asleep, PROT_READ | PROT_WRITE) : nullptr;
  if (asleep != nullptr) asleep_page_ = ::new (asleep) AsleepPage();
  made = rung != nullptr && asleep != nullptr &&
         fcntl(files_.rung, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0 &&
         fcntl(files_.asleep, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0;
  if (!made) {
    const int error = errno;
    const bool forbidden = error == ENOSYS || error == EPERM || error == EACCES;  // by a filter of system calls
    return Status::FromErrno(Code::kOverloaded, "memfd_create, mmap or eventfd", error)
        .Phase("make a doorbell for reactor " + home_.name())
        .Next(forbidden ? "allow these system calls in this container; until then tasks of one machine speak over TCP"
                        : "raise the limit of open files (ulimit -n)");
  }
  Status watched = home_.Watch(files_.event, EPOLLIN | EPOLLET, this);
  watched_ = watched.ok();
  return watched;
}

Doorbell::~Doorbell() {
  if (watched_) home_.Unwatch(files_.event, this);
  if (rung_page_ != nullptr) munmap(rung_page_, kDoorbellPageBytes);
  if (asleep_page_ != nullptr) munmap(asleep_page_, kDoorbellPageBytes);
  for (int fd : {files_.rung, files_.asleep, files_.event}) {
    if (fd >= 0) close(fd);
  }
}

uint32_t Doorbell::Hang(DoorbellHandler* handler) {
  FUSEWIRE_AT_HOME(home_);
  auto bit = static_cast<uint32_t>(std::min_element(counts_.begin(), counts_.end()) - counts_.begin());
  handlers_[bit].PushBack(handler);
  ++counts_[bit];
  return bit;
}

void Doorbell::Unhang(uint32_t bit, DoorbellHandler* handler) {
  FUSEWIRE_AT_HOME(home_);
  handler->Unlink();
  --counts_[bit];
  if (watched_one_ != handler) return;
  StopWatching();
  watched_one_ = nullptr;
}

bool Doorbell::AnswerAll() {
  uint64_t rung = rung_page_->rung.exchange(0, std::memory_order_seq_cst);
  if (rung == 0) return false;
  home_.SetHot(this);
  Choose(rung);
  for (; rung != 0; rung &= rung - 1) AnswerBit(static_cast<uint32_t>(std::countr_zero(rung)));
  return true;
}

// A handler that is rung for alone, more than once, and shares its bit with no other.
void Doorbell::Choose(uint64_t rung) {
  const bool again = std::exchange(rung_before_, rung) == rung && std::has_single_bit(rung);
  if (!again) return;
  const auto bit = static_cast<uint32_t>(std::countr_zero(rung));
  DoorbellHandler* one = counts_[bit] == 1 ? handlers_[bit].front() : nullptr;
  if (one == nullptr || one == watched_one_) return;
  if (watches_) StopWatching();
  // The peer of the previous one has just been told to ring again, and may have written before it knew.
  if (watched_one_ != nullptr && watched_one_->HasNews()) RingHere(watched_bit_);
  watched_one_ = one;
  watched_bit_ = bit;
}

void Doorbell::StartWatching() {
  watches_ = true;
  watched_one_->Watch(true);
}

void Doorbell::StopWatching() {
  watches_ = false;
  watched_one_->Watch(false);
}

bool Doorbell::AnswerWatched() {
  if (!watched_one_->HasNews()) return false;
  home_.SetHot(this);
  watched_one_->OnRung();
  return true;
}

void Doorbell::AnswerBit(uint32_t bit) {
  // A handler may end any other; each that is still there is called once.
  List<DoorbellHandler> now;
  now.TakeAll(&handlers_[bit]);
  while (DoorbellHandler* handler = now.PopFront()) {
    handlers_[bit].PushBack(handler);
    handler->OnRung();
  }
}

void Doorbell::Sweep() {
  next_sweep_ = (next_sweep_ + 1) % kBits;
  AnswerBit(next_sweep_);
}

// ---- the peer's end ----

class DoorbellTarget {
 public:
  // shared_ptr: all that ring one doorbell share it.
  static Result<std::shared_ptr<DoorbellTarget>> Make(const DoorbellFiles& files);
  ~DoorbellTarget();
  bool is_asleep() const { return asleep_page->asleep.load(std::memory_order_seq_cst) != 0; }
  void Wake();
  Doorbell* own = nullptr;  // of the home that rings; null: it wakes at once
  bool is_due = false;
  RungPage* rung_page = nullptr;
  const AsleepPage* asleep_page = nullptr;
  int event_fd = -1;
};

// shared_ptr: as above.
Result<std::shared_ptr<DoorbellTarget>> DoorbellTarget::Make(const DoorbellFiles& files) {
  if (!IsSealedPage(files.rung) || !IsSealedPage(files.asleep))
    return Status::Corrupt("the memory of the doorbell is not a sealed page");
  if (!IsEventFd(files.event)) return Status::Corrupt("what wakes the peer is not a non-blocking eventfd");
  auto target = std::make_shared<DoorbellTarget>();
  target->rung_page = static_cast<RungPage*>(MapPage(files.rung, PROT_READ | PROT_WRITE));
  target->asleep_page = static_cast<const AsleepPage*>(MapPage(files.asleep, PROT_READ));
  target->event_fd = fcntl(files.event, F_DUPFD_CLOEXEC, 0);
  if (target->rung_page == nullptr || target->asleep_page == nullptr || target->event_fd < 0) {
    return Status::FromErrno(Code::kOverloaded, "mmap or dup", errno)
        .Phase("opening a doorbell")
        .Next("raise the limit of open files (ulimit -n) or vm.max_map_count");
  }
  return target;
}

DoorbellTarget::~DoorbellTarget() {
  if (rung_page != nullptr) munmap(rung_page, kDoorbellPageBytes);
  if (asleep_page != nullptr) munmap(const_cast<AsleepPage*>(asleep_page), kDoorbellPageBytes);
  if (event_fd >= 0) close(event_fd);
}

Result<std::unique_ptr<PeerDoorbell>> Doorbell::OpenPeer(int peer_pid, const DoorbellFiles& files, uint32_t bit) {
  FUSEWIRE_AT_HOME(home_);
  struct stat is = {};
  if (peer_pid == 0 || bit >= kBits || fstat(files.rung, &is) != 0) return PeerDoorbell::Open(files, bit);
  std::erase_if(targets_, [](const auto& shared) { return shared.second.expired(); });
  // The kernel says whose connection it is, and the file's number is the file: a lying peer harms only its own
  // connection.
  std::weak_ptr<DoorbellTarget>& shared = targets_[{peer_pid, is.st_ino}];
  // shared_ptr: as above.
  std::shared_ptr<DoorbellTarget> target = shared.lock();
  if (target == nullptr) {
    auto made = DoorbellTarget::Make(files);
    if (!made.ok()) return made.status();
    target = std::move(made).value();
    target->own = this;
    shared = target;
  }
  return std::unique_ptr<PeerDoorbell>(new PeerDoorbell(std::move(target), bit));
}

Result<std::unique_ptr<PeerDoorbell>> PeerDoorbell::Open(const DoorbellFiles& files, uint32_t bit) {
  if (bit >= Doorbell::kBits) return Status::Corrupt("a doorbell has no bit " + std::to_string(bit));
  auto target = DoorbellTarget::Make(files);
  if (!target.ok()) return target.status();
  return std::unique_ptr<PeerDoorbell>(new PeerDoorbell(std::move(target).value(), bit));
}

// shared_ptr: as above.
PeerDoorbell::PeerDoorbell(std::shared_ptr<DoorbellTarget> target, uint32_t bit)
    : target_(std::move(target)), bit_(uint64_t{1} << bit) {}

PeerDoorbell::~PeerDoorbell() = default;

void PeerDoorbell::Ring() {
  target_->rung_page->rung.fetch_or(bit_, std::memory_order_seq_cst);
  if (!target_->is_asleep()) return;
  ++wakes_;
  target_->Wake();
}

void PeerDoorbell::RingSoftly() {
  if (target_->own == nullptr || !target_->own->wakes_.are_held) return Ring();
  target_->rung_page->rung.fetch_or(bit_, std::memory_order_seq_cst);
  if (target_->is_asleep() && !std::exchange(target_->is_due, true)) target_->own->wakes_.due.push_back(target_);
}

void DoorbellTarget::Wake() {
  const uint64_t one = 1;
  // Full: a peer of the same reactor has run the count up, and a count that does not move wakes nobody.
  while (write(event_fd, &one, sizeof(one)) < 0 && errno == EAGAIN) {
    uint64_t count = 0;
    if (read(event_fd, &count, sizeof(count)) < 0 && errno != EAGAIN) break;
  }
}

// One that is awake by now sees its bits before it sleeps.
void Doorbell::SendWakes() {
  wakes_.are_held = false;
  for (const auto& target : wakes_.due) {
    target->is_due = false;
    if (target->is_asleep()) target->Wake();
  }
  wakes_.due.clear();
}

}  // namespace fusewire::reactor
