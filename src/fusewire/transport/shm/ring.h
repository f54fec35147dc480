// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A ring of bytes in shared memory, one writer and one reader, and the records that stand in it:
//   record := size:u32 kind:u32 payload, filled up to a multiple of 8 bytes; it does not run over the ring's end
//   bytes  := payload is `size` bytes of the stream, behind a lead of kind >> 8 bytes that mean nothing
//   loan   := payload is address:u64 size:u64: that many bytes of the stream, in the writer's memory
//   skip   := `size` bytes follow that mean nothing: the next record begins behind them
// Positions count bytes since the beginning. Each side keeps its own position to itself and publishes a copy; what the
// other published is read once and checked.
// Home: that of the connection. Fails: the reader with kCorrupt, where the writer broke the format.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/transport/shm/segment.h"

namespace fusewire::transport {

// The cost of a byte for its reader: copied out of the ring, or out of the writer's memory. The kernel looks up each
// page of a loan; a ring that stays in a cache can take half of the time, and its writer copies at the same time as its
// reader.
class Costs {
 public:
  void OnRing(size_t bytes, int64_t ns) { ring_.Add(bytes, ns); }
  void OnLoan(size_t bytes, int64_t ns) { loan_.Add(bytes, ns); }
  // Whether the ring costs less. It changes only for a good part of the cost: a loan saves the writer's processor time.
  bool RingCostsLess() {
    if (ring_.samples < kSamplesMin || loan_.samples < kSamplesMin) return false;
    prefers_ring_ = ring_.ns_per_kib < loan_.ns_per_kib * (prefers_ring_ ? 0.9 : 0.7);
    return prefers_ring_;
  }

 private:
  static constexpr int kSamplesMin = 4;
  struct Cost {
    int samples = 0;
    double ns_per_kib = 0;
    void Add(size_t bytes, int64_t ns) {
      double sample = static_cast<double>(ns) * 1024 / static_cast<double>(std::max<size_t>(bytes, 1));
      // Another thread may have had the processor meanwhile.
      if (samples >= kSamplesMin) sample = std::min(sample, 2 * ns_per_kib);
      samples = std::min(samples + 1, kSamplesMin);
      ns_per_kib += (sample - ns_per_kib) / (samples < kSamplesMin ? samples : 8);
    }
  };
  Cost ring_, loan_;
  bool prefers_ring_ = false;
};

class RingWriter {
 public:
  explicit RingWriter(Segment* segment) : segment_(*segment) {}
  // Puts in as much of `bytes` as there is room for; returns how much. Publish() shows it to the reader.
  size_t Put(ConstBytes bytes);
  // False: there is no room.
  bool Lend(ConstBytes bytes);
  // True if there was something to show.
  bool Publish();
  bool HasRoom();
  uint64_t loans() const { return loans_; }
  // Whether to lend what is large, as far as we know. Now and then what costs more is done, so that the reader knows.
  bool ShouldLend() {
    const bool other = ++large_parts_ % kPartsPerTry == kSamplesAfter;
    return (segment_.peer().ring_costs_less.load(std::memory_order_relaxed) == 0) != other;
  }
  // How many of them the reader has read.
  uint64_t LoansRead() const;

 private:
  size_t Contiguous(size_t wanted);
  void PutHeader(uint32_t size, uint32_t kind);
  uint64_t FreshRoom();
  uint64_t Offset() const { return filled_ & (segment_.ring_bytes() - 1); }

  static constexpr uint32_t kPartsPerTry = 64, kSamplesAfter = 8;
  Segment& segment_;
  uint32_t large_parts_ = 0;
  uint64_t filled_ = 0;
  uint64_t published_ = 0;
  uint64_t taken_ = 0;  // by the reader, when we last looked
  uint64_t loans_ = 0;
};

class RingReader {
 public:
  explicit RingReader(Segment* segment) : segment_(*segment) {}
  // `pid` is the process whose memory is lent; 0: the peer may not lend.
  void SetLender(pid_t pid) { lender_ = pid; }
  // Fills the parts in order, as far as there are bytes; returns how many.
  Result<size_t> Read(Bytes* parts, size_t count);
  // Gives the room of what was read back to the writer. True if it waits for that, or for a loan.
  bool Release();
  // The writer has shown something since we last looked.
  bool HasNews() const {
    if (frozen_ || segment_.peer().filled.load(std::memory_order_seq_cst) == filled_) return false;
    // A small message is in the other's cache: its lines come together while we find out whose it is.
    const uint8_t* next = segment_.peer_ring() + Offset();
    for (size_t line = 0; line < 4; ++line) __builtin_prefetch(next + line * 64);
    return true;
  }
  // No more bytes are seen than are there now, whatever the writer does.
  void Freeze();

 private:
  Status NextRecord();
  void CopyOut(Bytes to);
  void PublishCosts();
  Result<size_t> ReadLoan(Bytes* parts, size_t count);
  void Finish();
  bool Refresh();
  uint64_t Offset() const { return taken_ & (segment_.ring_bytes() - 1); }

  Segment& segment_;
  pid_t lender_ = 0;
  uint64_t taken_ = 0;
  uint64_t filled_ = 0;  // by the writer, when we last looked, checked
  uint64_t released_ = 0;
  uint64_t record_left_ = 0;  // bytes of the stream in the record that we are in
  uint64_t padding_ = 0;      // behind it
  uint64_t loan_address_ = 0;
  bool in_loan_ = false;
  bool frozen_ = false;
  bool loan_ended_ = false;
  uint64_t loans_read_ = 0;
  Costs costs_;
  uint32_t large_copies_ = 0;
  bool ring_costs_less_ = false;  // as it is published
};

}  // namespace fusewire::transport
