// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/uring/ring.h"

#include <limits.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/log.h"

namespace fusewire {
namespace transport {
namespace uring {
namespace {

// A limit per turn: sends that complete at once lead to more sends, and other objects must get their turn.
constexpr int kRoundsMax = 4;
constexpr size_t kSparesMax = 16;
constexpr size_t kBufferStride = kBufferBytes + 1;
constexpr uint16_t kBufferGroup = 0;
// The interval at which we ask the kernel again for memory that it still holds.
constexpr int64_t kWaitNs = 100 * kMillisecondNs;
constexpr int64_t kWaitLogNs = 10 * kSecondNs;

uint32_t LoadAcquire(const uint32_t* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }

Status Refused(const char* call) {
  return Status::FromErrno(Code::kUnavailable, call, errno).Phase("open an io_uring").Next("go on without it");
}

}  // namespace

// ---- opening ----

Ring::Mapping::~Mapping() {
  if (data != nullptr) munmap(data, bytes);
}

bool Ring::Mapping::Map(int fd, int64_t offset, size_t bytes_in) {
  int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED | MAP_POPULATE;
  void* mapped = mmap(nullptr, bytes_in, PROT_READ | PROT_WRITE, flags, fd, offset);
  if (mapped == MAP_FAILED) return false;
  data = static_cast<uint8_t*>(mapped);
  bytes = bytes_in;
  (void)madvise(mapped, bytes_in, MADV_DONTFORK);  // a forked child must not use it
  return true;
}

Result<std::unique_ptr<Ring>> Ring::Make(reactor::Reactor& home, const RingOptions& options) {
  FUSEWIRE_AT_HOME(home);
  std::unique_ptr<Ring> ring(new Ring(home));
  FUSEWIRE_TRY(ring->Open(options));
  FUSEWIRE_TRY(ring->OpenBuffers(options.buffers));
  FUSEWIRE_TRY(home.Watch(ring->fd_.get(), EPOLLIN, ring.get()));
  ring->watched_ = true;
  return ring;
}

Status Ring::Open(const RingOptions& options) {
  Params params = {};
  params.flags = kSetupCqSize | kSetupClamp | kSetupSubmitAll;
  // A home that never sleeps runs the kernel's work itself: an interrupt costs the peer tens of microseconds on a
  // virtual machine. A home that may sleep is interrupted: its last caller may be elsewhere by then.
  if (home_.busy_poll()) params.flags |= kSetupAsked | kSetupTellsOfWork;
  params.cq_entries = options.outcomes;
  auto fd = static_cast<int>(syscall(kSysSetup, options.orders, &params));
  if (fd < 0) return Refused("io_uring_setup");
  fd_ = Fd(fd);
  if ((params.features & kFeatures) != kFeatures) {
    return Status::Unavailable("this kernel's io_uring is too old").Phase("open an io_uring").Next("go on without it");
  }
  size_t queue_bytes = std::max(params.sq.array + params.sq_entries * sizeof(uint32_t),
                                params.cq.cqes + params.cq_entries * sizeof(Cqe));
  if (!queues_.Map(fd, kMapQueues, queue_bytes) || !orders_.Map(fd, kMapOrders, params.sq_entries * sizeof(Sqe))) {
    return Refused("mmap");
  }
  sq_tail_ = queues_.At<uint32_t>(params.sq.tail);
  sq_flags_ = queues_.At<uint32_t>(params.sq.flags);
  sq_mask_ = params.sq_entries - 1;
  sq_next_ = *sq_tail_;
  for (uint32_t i = 0; i < params.sq_entries; ++i) queues_.At<uint32_t>(params.sq.array)[i] = i;
  cq_head_ = queues_.At<uint32_t>(params.cq.head);
  cq_tail_ = queues_.At<uint32_t>(params.cq.tail);
  cqes_ = queues_.At<Cqe>(params.cq.cqes);
  cq_mask_ = params.cq_entries - 1;
  pieces_.resize(size_t{2} * IOV_MAX);
  Probe probe = {};
  if (syscall(kSysRegister, fd, kRegisterProbe, &probe, 64) != 0) return Refused("io_uring_register");
  sends_without_copy_ =
      probe.last_opcode >= kSendMessageZeroCopy && (probe.ops[kSendMessageZeroCopy].flags & kOpSupported) != 0;
  // A sandbox may permit creating rings but forbid their use.
  errno = Enter(0, 0, 0);
  if (errno != 0) return Refused("io_uring_enter");
  return Status::Ok();
}

Status Ring::OpenBuffers(uint32_t count) {
  FUSEWIRE_CHECK(count > 0 && count <= 1024);
  FUSEWIRE_CHECK((count & (count - 1)) == 0);
  if (!buffers_.Map(-1, 0, count * sizeof(BufferEntry)) || !buffer_memory_.Map(-1, 0, count * kBufferStride)) {
    return Refused("mmap");
  }
  BufferRing ring = {};
  ring.address = reinterpret_cast<uint64_t>(buffers_.data);
  ring.entries = count;
  ring.group = kBufferGroup;
  if (syscall(kSysRegister, fd_.get(), kRegisterBufferRing, &ring, 1) != 0) return Refused("io_uring_register");
  buffer_mask_ = static_cast<uint16_t>(count - 1);
  for (uint32_t i = 0; i < count; ++i) GiveBack(kTookBuffer | i << kBufferNumberShift);
  return Status::Ok();
}

Ring::~Ring() {
  if (watched_) home_.Unwatch(fd_.get(), this);
  for (const Entry& entry : entries_) FUSEWIRE_CHECK(!entry.in_kernel);
}

// ---- buffers ----

ConstBytes Ring::BufferOf(const Outcome& outcome) const {
  FUSEWIRE_CHECK((outcome.flags & kTookBuffer) != 0);
  const size_t number = outcome.flags >> kBufferNumberShift;
  FUSEWIRE_CHECK(number <= buffer_mask_);
  return {buffer_memory_.data + number * kBufferStride, static_cast<size_t>(std::max(outcome.result, 0))};
}

void Ring::GiveBack(uint32_t flags) {
  if ((flags & kTookBuffer) == 0) return;
  auto number = static_cast<uint16_t>(flags >> kBufferNumberShift);
  auto* entries = buffers_.At<BufferEntry>(0);
  BufferEntry& entry = entries[buffer_tail_ & buffer_mask_];
  entry.address = reinterpret_cast<uint64_t>(buffer_memory_.data) + number * kBufferStride;
  entry.length = kBufferBytes;
  entry.number = number;
  __atomic_store_n(&entries[0].tail, ++buffer_tail_, __ATOMIC_RELEASE);
}

std::unique_ptr<uint8_t[]> Ring::TakeSpare() {
  if (spares_.empty()) return std::make_unique<uint8_t[]>(kBufferBytes);
  std::unique_ptr<uint8_t[]> spare = std::move(spares_.back());
  spares_.pop_back();
  return spare;
}

void Ring::GiveSpare(std::unique_ptr<uint8_t[]> spare) {
  if (spare != nullptr && spares_.size() < kSparesMax) spares_.push_back(std::move(spare));
}

// ---- orders ----

Sqe* Ring::Next() {
  if (gathered_ > sq_mask_) HandIn();
  Sqe* sqe = orders_.At<Sqe>(0) + (sq_next_ & sq_mask_);
  *sqe = Sqe();
  ++sq_next_;
  ++gathered_;
  home_.FlushLast(this);
  return sqe;
}

Sqe* Ring::Order(RingUser* user, uint32_t* number) {
  FUSEWIRE_AT_HOME(home_);
  Sqe* sqe = Next();
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(entries_.size()));
    entries_.emplace_back();
  }
  *number = free_.back();
  free_.pop_back();
  entries_[*number].user = user;
  entries_[*number].in_kernel = true;
  sqe->user_data = uint64_t{*number} + 1;
  return sqe;
}

iovec* Ring::Pieces(size_t count) {
  FUSEWIRE_CHECK(count <= pieces_.size());
  // Room for both now: a submission to make room for the order would free its pieces.
  if (pieces_used_ + count > pieces_.size() || gathered_ > sq_mask_) HandIn();
  iovec* pieces = pieces_.data() + pieces_used_;
  pieces_used_ += count;
  return pieces;
}

void Ring::Cancel(uint32_t number) {
  if (!InKernel(number)) return;
  Sqe* sqe = Next();
  sqe->opcode = kAsyncCancel;
  sqe->flags = kQuietIfWell;
  sqe->fd = -1;
  sqe->address = uint64_t{number} + 1;
}

// An order that was not submitted yet is replaced by a no-op; its memory may be freed already.
void Ring::Hush(uint32_t number) {
  for (uint32_t i = sq_next_ - gathered_; i != sq_next_; ++i) {
    Sqe* sqe = orders_.At<Sqe>(0) + (i & sq_mask_);
    if (sqe->user_data != uint64_t{number} + 1) continue;
    const uint64_t user_data = sqe->user_data;
    *sqe = Sqe();
    sqe->opcode = kNop;
    sqe->user_data = user_data;
  }
}

void Ring::Abandon(uint32_t first, uint32_t second) {
  FUSEWIRE_AT_HOME(home_);
  for (uint32_t number : {first, second}) {
    if (number == kNone) continue;
    entries_[number].user = nullptr;
    Hush(number);
    Cancel(number);
  }
  AwaitKernel(first, second);
}

void Ring::Withdraw(uint32_t number) {
  FUSEWIRE_AT_HOME(home_);
  Cancel(number);
  AwaitKernel(number, kNone);
}

// Waits until the kernel has finished these orders.
void Ring::AwaitKernel(uint32_t first, uint32_t second) {
  HandIn();
  const int64_t began_ns = home_.clock()->NowNs();
  bool told = false;
  for (Collect(); InKernel(first) || InKernel(second); Collect()) {
    Enter(0, 1, kWaitNs);
    if (told || home_.clock()->NowNs() - began_ns < kWaitLogNs) continue;
    told = true;
    FUSEWIRE_LOG(kError,
                 "reactor %s has waited 10 s for the kernel to give up a cancelled io_uring order; look for a stopped "
                 "thread in this process",
                 home_.name().c_str());
  }
  home_.FlushLast(this);  // outcomes of other orders are delivered then
}

// ---- the kernel ----

// 0, or the errno.
int Ring::Enter(uint32_t orders, uint32_t wait_for, int64_t wait_ns) {
  KernelTime time = {wait_ns / kSecondNs, wait_ns % kSecondNs};
  WaitArguments arguments = {};
  arguments.time = reinterpret_cast<uint64_t>(&time);
  const bool waits = wait_for > 0;
  const long done = syscall(kSysEnter, fd_.get(), orders, wait_for, kEnterWait | (waits ? kEnterExtended : 0U),
                            waits ? &arguments : nullptr, waits ? sizeof(arguments) : 0);
  if (done < 0) return errno;
  stats_.orders += static_cast<uint64_t>(done);
  gathered_ -= std::min(gathered_, static_cast<uint32_t>(done));
  return 0;
}

void Ring::HandIn() {
  if (gathered_ == 0) return;
  __atomic_store_n(sq_tail_, sq_next_, __ATOMIC_RELEASE);
  const int64_t began_ns = home_.clock()->NowNs();
  while (gathered_ > 0) {
    ++stats_.hand_ins;
    const int error = Enter(gathered_, 0, 0);
    if (error == 0 || error == EINTR) continue;
    // The queue of outcomes is full, or the kernel is short of memory for a moment.
    FUSEWIRE_CHECK(error == EBUSY || error == EAGAIN);
    Collect();
    FUSEWIRE_CHECK(home_.clock()->NowNs() - began_ns < kWaitLogNs);
  }
  pieces_used_ = 0;
}

// Takes outcomes from the kernel's queue. True if there were any.
bool Ring::Collect() {
  bool any = false;
  for (;;) {
    uint32_t head = *cq_head_;
    const uint32_t tail = LoadAcquire(cq_tail_);
    for (; head != tail; ++head) {
      const Cqe cqe = cqes_[head & cq_mask_];
      if (cqe.user_data == 0) continue;  // of a cancel that was too late
      const uint64_t number = cqe.user_data - 1;
      FUSEWIRE_CHECK(number < entries_.size());
      if ((cqe.flags & kMoreToCome) == 0) entries_[number].in_kernel = false;
      if (cqe.result == -ENOBUFS) ++stats_.short_of_buffers;
      arrived_.push_back({static_cast<uint32_t>(number), cqe.result, cqe.flags});
      any = true;
    }
    __atomic_store_n(cq_head_, head, __ATOMIC_RELEASE);
    if ((LoadAcquire(sq_flags_) & kQueueOverflow) == 0) return any;
    ++stats_.overflows;
    (void)Enter(0, 0, 0);  // the kernel kept the rest for us
  }
}

bool Ring::Tell() {
  bool any = false;
  for (size_t left = arrived_.size(); left > 0 && !arrived_.empty(); --left) {
    const Outcome outcome = arrived_.front();
    arrived_.pop_front();
    any = true;
    RingUser* user = entries_[outcome.order].user;
    if ((outcome.flags & kMoreToCome) == 0) free_.push_back(outcome.order);
    if (user != nullptr) user->OnOutcome(outcome);
    GiveBack(outcome.flags);
  }
  if (!arrived_.empty()) home_.FlushLast(this);
  return any;
}

bool Ring::PollNow() {
  if ((LoadAcquire(sq_flags_) & kQueueWork) != 0) (void)Enter(0, 0, 0);
  Collect();
  if (!Tell()) return false;
  home_.SetHot(this);
  return true;
}

void Ring::Flush() {
  for (int round = 0; round < kRoundsMax; ++round) {
    List<RingUser> now;
    now.TakeAll(&to_arm_);
    while (RingUser* user = now.PopFront()) user->Arm();
    HandIn();
    Collect();
    if (!Tell()) break;
  }
  if (gathered_ > 0 || !to_arm_.empty() || !arrived_.empty()) home_.FlushLast(this);
}

bool Ring::Look() {
  HandIn();
  (void)Enter(0, 0, 0);
  return PollNow();
}

}  // namespace uring
}  // namespace transport
}  // namespace fusewire
