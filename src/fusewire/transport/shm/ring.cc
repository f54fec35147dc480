// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/shm/ring.h"

#include <limits.h>
#include <sys/uio.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"
#include "fusewire/base/sanitizers.h"
#include "fusewire/transport/transport.h"

namespace fusewire::transport {
namespace {

constexpr uint32_t kKindBytes = 1, kKindLoan = 2, kKindSkip = 3;
constexpr size_t kHeaderBytes = 8, kLoanBytes = 16;
// A record of bytes is no longer than this: the reader need not wait for the rest of a long write.
constexpr size_t kRecordBytesMax = 8 * 1024;
static_assert(kRecordBytesMax < kCopyBytesMax, "what is put into the ring is not a large copy");
// A larger piece begins at a cache line, after a lead: copies of whole lines take less time.
constexpr size_t kAlignedBytesMin = 512;
constexpr uint32_t kLine = 64, kKindBits = 8;
// A writer that finds the ring empty beyond this begins again at its start: little traffic stays in few pages, and a
// stream whose reader keeps up stays in a processor's cache.
constexpr uint64_t kFrontBytes = 16 * 1024, kLargeFrontBytes = 64 * 1024;
// About as many loans as are read while a writer wakes.
constexpr uint64_t kLoansWhileWaking = 2;
// Large records; one in so many is timed, to learn what copying a byte out of the ring costs.
constexpr size_t kLargeBytesMin = 4 * 1024;
constexpr uint32_t kCopiesPerTimed = 8;
// The most that one system call copies, so that a connection makes way for the others of its reactor.
constexpr uint64_t kLoanReadBytesMax = 4 << 20;

// One word, so that it is read once.
using RecordHeader = std::atomic<uint64_t>;
static_assert(sizeof(RecordHeader) == kHeaderBytes);

struct Loan {
  uint64_t address;
  uint64_t size;
};
static_assert(sizeof(Loan) == kLoanBytes);

uint64_t Rounded(uint64_t bytes) { return (bytes + 7) & ~uint64_t{7}; }

// Two ends in one process map the segment twice. ThreadSanitizer goes by addresses: it does not see that what one end
// stores is what the other loads, so it is told. One variable for all, like its model of sockets.
char seen_by_all;

}  // namespace

// ---- the writer ----

// A reader that publishes a wrong position gives us no room, and hurts only itself.
uint64_t RingWriter::FreshRoom() {
  // Up to the last whole record, or nearly: records begin at multiples of 8.
  const uint64_t taken = segment_.peer().taken.load(std::memory_order_acquire) & ~uint64_t{7};
  TellHappensAfter(&seen_by_all);
  if (taken > taken_ && taken <= filled_) taken_ = taken;
  FUSEWIRE_DCHECK(filled_ - taken_ <= segment_.ring_bytes());
  return segment_.ring_bytes() - (filled_ - taken_);
}

// How many payload bytes a record that begins here can have, up to `wanted`; 0: there is no room. May skip to the
// ring's start.
size_t RingWriter::Contiguous(size_t wanted) {
  const uint64_t ring_bytes = segment_.ring_bytes();
  const uint64_t needed = kHeaderBytes + Rounded(wanted);
  const uint64_t front = wanted < kLargeBytesMin ? kFrontBytes : kLargeFrontBytes;
  uint64_t room = ring_bytes - (filled_ - taken_);
  if (room < needed || Offset() >= front) room = FreshRoom();
  const bool empty = room == ring_bytes;
  uint64_t to_end = ring_bytes - Offset();
  if (to_end < kHeaderBytes + kLoanBytes || (empty && Offset() >= front)) {
    if (room < to_end) return 0;
    PutHeader(static_cast<uint32_t>(to_end - kHeaderBytes), kKindSkip);
    filled_ += to_end - kHeaderBytes;
    room -= to_end;
    to_end = ring_bytes;
  }
  const uint64_t space = std::min(room, to_end);
  if (space < kHeaderBytes + std::min<uint64_t>(Rounded(wanted), kLoanBytes)) return 0;
  return static_cast<size_t>(std::min<uint64_t>(wanted, space - kHeaderBytes));
}

void RingWriter::PutHeader(uint32_t size, uint32_t kind) {
  FUSEWIRE_DCHECK(Offset() % kHeaderBytes == 0);
  FUSEWIRE_DCHECK(Offset() + kHeaderBytes + size <= segment_.ring_bytes());
  auto* header = reinterpret_cast<RecordHeader*>(segment_.own_ring() + Offset());
  header->store(uint64_t{kind} << 32 | size, std::memory_order_relaxed);
  filled_ += kHeaderBytes;
}

size_t RingWriter::Put(ConstBytes bytes) {
  size_t put = 0;
  while (put < bytes.size) {
    const size_t wanted = std::min(bytes.size - put, kRecordBytesMax);
    const size_t lead_max = wanted < kAlignedBytesMin ? 0 : kLine - kHeaderBytes;
    const size_t room = Contiguous(wanted + lead_max);
    if (room == 0) break;
    const auto to_line = static_cast<size_t>((kLine - (Offset() + kHeaderBytes) % kLine) % kLine);
    const size_t lead = room > lead_max && lead_max > 0 ? to_line : 0;
    const size_t size = std::min(wanted, room - lead);
    FUSEWIRE_DCHECK(size > 0);
    FUSEWIRE_DCHECK(lead + size <= room);
    PutHeader(static_cast<uint32_t>(size), kKindBytes | static_cast<uint32_t>(lead) << kKindBits);
    CopyBytes(Bytes(segment_.own_ring() + Offset() + lead, size), bytes.Sub(put, size));
    filled_ += Rounded(lead + size);
    put += size;
  }
  return put;
}

bool RingWriter::Lend(ConstBytes bytes) {
  FUSEWIRE_CHECK(!bytes.empty());  // to the reader, a loan of nothing is an error
  if (Contiguous(kLoanBytes) < kLoanBytes) return false;
  PutHeader(kLoanBytes, kKindLoan);
  const Loan loan = {reinterpret_cast<uint64_t>(bytes.data), bytes.size};
  CopyBytes(Bytes(segment_.own_ring() + Offset(), kLoanBytes), ConstBytes(&loan, sizeof(loan)));
  filled_ += kLoanBytes;
  ++loans_;
  return true;
}

bool RingWriter::Publish() {
  FUSEWIRE_DCHECK(published_ <= filled_);
  if (published_ == filled_) return false;
  published_ = filled_;
  TellHappensBefore(&seen_by_all);
  segment_.own().loans.store(loans_, std::memory_order_relaxed);
  segment_.own().filled.store(filled_, std::memory_order_release);
  return true;
}

bool RingWriter::HasRoom() { return FreshRoom() >= segment_.ring_bytes() / 4; }

uint64_t RingWriter::LoansRead() const {
  const uint64_t read = segment_.peer().loans_read.load(std::memory_order_acquire);
  TellHappensAfter(&seen_by_all);
  return read;
}

// ---- the reader ----

bool RingReader::Refresh() {
  if (!frozen_) {
    const uint64_t filled = segment_.peer().filled.load(std::memory_order_acquire);
    TellHappensAfter(&seen_by_all);
    // A writer never takes back what it has shown, so that we never read beyond it.
    const uint64_t there = filled - taken_;
    if (there > segment_.ring_bytes() || there < filled_ - taken_) return false;
    filled_ = filled;
  }
  return true;
}

void RingReader::Freeze() {
  (void)Refresh();
  frozen_ = true;
}

// Enters the next record with bytes of the stream, if there is one.
Status RingReader::NextRecord() {
  for (bool skipped = false; record_left_ == 0;) {
    if (filled_ == taken_ && !Refresh()) return Status::Corrupt("the peer's ring is filled beyond its size");
    if (filled_ == taken_) return Status::Ok();
    const uint64_t to_end = segment_.ring_bytes() - Offset();
    const uint64_t there = std::min(filled_ - taken_, to_end);
    if (there < kHeaderBytes) return Status::Corrupt("the peer's ring holds a part of a record's header");
    const auto* header = reinterpret_cast<const RecordHeader*>(segment_.peer_ring() + Offset());
    const uint64_t word = header->load(std::memory_order_relaxed);
    const auto size = static_cast<uint32_t>(word), words = static_cast<uint32_t>(word >> 32);
    const uint32_t kind = words & ((1U << kKindBits) - 1), lead = words >> kKindBits;
    const uint64_t payload = Rounded(uint64_t{lead} + size);
    if (payload > there - kHeaderBytes)
      return Status::Corrupt("the size of a record in the peer's ring is " + std::to_string(size) +
                             ", beyond what it holds");
    taken_ += kHeaderBytes;
    if (kind == kKindSkip && lead == 0 && !skipped && payload == to_end - kHeaderBytes) {
      skipped = true;
      taken_ += payload;
    } else if (kind == kKindBytes && size > 0) {
      taken_ += lead;
      record_left_ = size;
      padding_ = payload - lead - size;
    } else if (kind == kKindLoan && lead == 0 && size == kLoanBytes && lender_ != 0) {
      Loan loan;
      CopyBytes(Bytes(&loan, sizeof(loan)), ConstBytes(segment_.peer_ring() + Offset(), kLoanBytes));
      taken_ += kLoanBytes;
      if (loan.size == 0) return Status::Corrupt("the size of a loan in the peer's ring is 0");
      in_loan_ = true;
      loan_address_ = loan.address;
      record_left_ = loan.size;
      padding_ = 0;
    } else {
      return Status::Corrupt("no writer makes a record of kind " + std::to_string(words) + " and size " +
                             std::to_string(size) + ", as the peer's ring has");
    }
  }
  return Status::Ok();
}

void RingReader::Finish() {
  if (record_left_ > 0) return;
  taken_ += padding_;
  padding_ = 0;
  FUSEWIRE_DCHECK(taken_ <= filled_);
  if (in_loan_) {
    ++loans_read_;
    loan_ended_ = true;
  }
  in_loan_ = false;
}

Result<size_t> RingReader::Read(Bytes* parts, size_t count) {
  size_t total = 0;
  size_t i = 0;
  while (i < count) {
    if (parts[i].empty()) {
      ++i;
      continue;
    }
    FUSEWIRE_TRY(NextRecord());
    if (record_left_ == 0) break;
    if (in_loan_) {
      Result<size_t> read = ReadLoan(parts + i, count - i);
      if (!read.ok()) return read;
      for (size_t left = read.value(); left > 0;) {
        const size_t part = std::min(left, parts[i].size);
        parts[i] = parts[i].From(part);
        left -= part;
        if (parts[i].empty()) ++i;
      }
      total += read.value();
      continue;
    }
    const auto size = static_cast<size_t>(std::min<uint64_t>({record_left_, parts[i].size, kRecordBytesMax}));
    CopyOut(parts[i].Sub(0, size));
    parts[i] = parts[i].From(size);
    taken_ += size;
    record_left_ -= size;
    total += size;
    Finish();
  }
  return total;
}

// Some of the large ones are timed.
void RingReader::CopyOut(Bytes to) {
  FUSEWIRE_DCHECK(to.size <= record_left_);
  FUSEWIRE_DCHECK(Offset() + to.size <= segment_.ring_bytes());
  const ConstBytes from(segment_.peer_ring() + Offset(), to.size);
  if (to.size < kLargeBytesMin || ++large_copies_ % kCopiesPerTimed != 0) return CopyBytes(to, from);
  const int64_t begin_ns = Clock::Real()->NowNs();
  CopyBytes(to, from);
  costs_.OnRing(to.size, Clock::Real()->NowNs() - begin_ns);
  PublishCosts();
}

void RingReader::PublishCosts() {
  const bool less = costs_.RingCostsLess();
  if (std::exchange(ring_costs_less_, less) == less) return;
  segment_.own().ring_costs_less.store(less ? 1 : 0, std::memory_order_relaxed);
}

// One copy, from the writer's memory to where the bytes belong.
Result<size_t> RingReader::ReadLoan(Bytes* parts, size_t count) {
  FUSEWIRE_DCHECK(in_loan_);
  FUSEWIRE_CHECK(lender_ > 0);
  // A peer that has gone has taken back what it lent; one that has not could keep us here for ever.
  if (frozen_) return Status::Unavailable("the peer closed the connection");
  iovec into[kLandingPartsMax + 1];
  uint64_t wanted = std::min(record_left_, kLoanReadBytesMax);
  size_t used = 0;
  for (uint64_t left = wanted; used < count && left > 0; ++used) {
    const auto size = static_cast<size_t>(std::min<uint64_t>(left, parts[used].size));
    into[used] = {parts[used].data, size};
    left -= size;
    if (used + 1 == count) wanted -= left;
  }
  FUSEWIRE_CHECK(used <= kLandingPartsMax + 1);
  // The peer gave the address, and it is one in the peer's memory: it leads nowhere else.
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  iovec from = {reinterpret_cast<void*>(loan_address_), static_cast<size_t>(wanted)};
  const int64_t begin_ns = Clock::Real()->NowNs();
  const ssize_t got = process_vm_readv(lender_, into, used, &from, 1, 0);
  const int error = errno;
  if (got > 0) costs_.OnLoan(static_cast<size_t>(got), Clock::Real()->NowNs() - begin_ns);
  PublishCosts();
  // The writer publishes that it takes a loan back before the memory changes, so what was read before that is valid.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (segment_.peer().revoked.load(std::memory_order_acquire) != 0)
    return Status::Unavailable("the peer closed the connection");
  if (got < 0) return Status::FromErrno(Code::kUnavailable, "process_vm_readv", error);
  if (got == 0) return Status::Corrupt("the address of the peer's loan is not in its memory");
  FUSEWIRE_CHECK(static_cast<uint64_t>(got) <= record_left_);
  loan_address_ += static_cast<uint64_t>(got);
  record_left_ -= static_cast<uint64_t>(got);
  Finish();
  return static_cast<size_t>(got);
}

bool RingReader::Release() {
  TellHappensBefore(&seen_by_all);
  if (loan_ended_) segment_.own().loans_read.store(loans_read_, std::memory_order_release);
  FUSEWIRE_DCHECK(released_ <= taken_);
  if (released_ == taken_ && !loan_ended_) return false;
  released_ = taken_;
  segment_.own().taken.store(taken_, std::memory_order_release);
  // The writer waits for the last of them: ringing for each would wake it for nothing. But a writer that sleeps takes
  // time to wake, so it is better called early.
  if (std::exchange(loan_ended_, false)) {
    const uint64_t lent = segment_.peer().loans.load(std::memory_order_relaxed);
    if (loans_read_ >= lent || lent - loans_read_ == kLoansWhileWaking) return true;
  }
  // The writer publishes that it waits, and looks for room once more; we make room, and look whether it waits.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (segment_.peer().wants_room.load(std::memory_order_relaxed) == 0) return false;
  return filled_ - taken_ <= segment_.ring_bytes() / 2;
}

}  // namespace fusewire::transport
