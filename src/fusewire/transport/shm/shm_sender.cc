// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/shm/shm_sender.h"

#include <algorithm>
#include <atomic>

#include "fusewire/base/metrics.h"

namespace fusewire::transport {
namespace {

// The reader is notified of a long write once this much of it is in the ring, and works beside its writer.
constexpr size_t kShowBytes = 16 * 1024;
// Copying this much takes about as long as waking a thread.
constexpr size_t kSoftBytes = 64 * 1024;
// Pieces from this size on may be lent instead of put into the ring: the receiver copies them from our memory.
constexpr size_t kLendBytesMin = 64 * 1024;

SharedCounter shared_bytes_written;

}  // namespace

uint64_t BytesWrittenByAll() { return shared_bytes_written.Read(); }

ShmSender::ShmSender(Segment* segment, bool lend, PeerBell* peer_bell)
    : segment_(*segment), peer_bell_(*peer_bell), lend_(lend), writer_(segment) {}

std::optional<size_t> ShmSender::Write(const ConstBytes* parts, size_t count) {
  FUSEWIRE_CHECK(!room_due_);
  FUSEWIRE_CHECK(unread_count_ == 0 || TakesMore());
  if (full_) {
    WaitForRoom();
    return std::nullopt;
  }
  const uint64_t loans_before = writer_.loans();
  size_t offered = 0;
  const size_t taken = Put(parts, count, &offered);
  FUSEWIRE_DCHECK(taken <= offered);
  full_ = taken < offered;
  shared_bytes_written.Add(taken);
  ShowPeer(taken <= kSoftBytes);
  if (writer_.loans() != loans_before || unread_count_ > 0) {
    FUSEWIRE_CHECK(unread_count_ < kUnreadMax);
    unread_[unread_count_++] = {taken, writer_.loans()};
    return std::nullopt;
  }
  if (taken > 0) return taken;
  WaitForRoom();
  return std::nullopt;
}

// Small parts into the ring, large ones as loans, until there is no room.
size_t ShmSender::Put(const ConstBytes* parts, size_t count, size_t* offered) {
  size_t taken = 0;
  bool room = true;
  for (size_t i = 0; i < count; ++i) {
    *offered += parts[i].size;
    if (!room) continue;
    if (parts[i].size >= kLendBytesMin && MayLend() && writer_.ShouldLend()) {
      room = writer_.Lend(parts[i]);
      if (room) taken += parts[i].size;
      continue;
    }
    for (ConstBytes left = parts[i]; !left.empty() && room;) {
      const size_t put = writer_.Put(left.Sub(0, std::min(left.size, kShowBytes)));
      room = put == std::min(left.size, kShowBytes);
      taken += put;
      left = left.From(put);
      if (!left.empty()) ShowPeer();
    }
  }
  return taken;
}

// The peer shows that on a cache line that it writes often: we look at it until it is set.
bool ShmSender::MayLend() {
  if (!peer_reads_) peer_reads_ = lend_ && segment_.peer().can_read.load(std::memory_order_acquire) != 0;
  return peer_reads_;
}

// We show what we wrote, and look whether the peer watches; it stops watching, and looks whether we showed something.
void ShmSender::ShowPeer(bool softly) {
  if (!writer_.Publish()) return;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (segment_.peer().watches.load(std::memory_order_relaxed) != 0) return;
  if (softly) {
    peer_bell_.RingSoftly();
  } else {
    peer_bell_.Ring();
  }
}

void ShmSender::WaitForRoom() {
  FUSEWIRE_DCHECK(unread_count_ == 0);
  room_due_ = true;
  segment_.own().wants_room.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

std::optional<size_t> ShmSender::PopRead(uint64_t loans_read) {
  if (unread_count_ == 0 || unread_[0].loans > loans_read) return std::nullopt;
  FUSEWIRE_DCHECK(unread_count_ <= kUnreadMax);
  const size_t bytes = unread_[0].bytes;
  std::copy(unread_ + 1, unread_ + unread_count_--, unread_);
  return bytes;
}

bool ShmSender::TakeRoom() {
  if (!room_due_ || !writer_.HasRoom()) return false;
  FUSEWIRE_DCHECK(unread_count_ == 0);
  segment_.own().wants_room.store(0, std::memory_order_relaxed);
  full_ = false;
  room_due_ = false;
  return true;
}

void ShmSender::TakeBackLoans() {
  if (unread_count_ == 0) return;
  segment_.own().revoked.store(1, std::memory_order_relaxed);
  // What was lent may change from here on, and the peer must not see that first: on aarch64 a plain store may overtake
  // any store before it, so a fence stands in between.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace fusewire::transport
