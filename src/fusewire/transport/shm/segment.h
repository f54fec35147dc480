// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The memory that the two ends of one connection share, made by the dialler and sealed: no process can make it smaller.
//   page 0     two Halves: what each end publishes about itself; only that end writes it
//   then       the ring that the dialler writes, then the ring that the listener's side writes
// The peer may have written anything: every number is read once, and checked before it is used.
// Home: none. Owns: the mapping. Fails: Make and Attach say why.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "fusewire/base/status.h"
#include "fusewire/transport/socket_address.h"

namespace fusewire::transport {

constexpr uint32_t kRingBytesMin = 4096;
constexpr uint32_t kRingBytesMax = 16 << 20;

struct Half {
  // As a writer. Bytes of our ring that are filled, since the beginning.
  alignas(64) std::atomic<uint64_t> filled;
  std::atomic<uint64_t> loans;       // how many we have lent in all: ring when they are read
  std::atomic<uint32_t> wants_room;  // we wait for room: ring when there is some
  std::atomic<uint32_t> finished;    // we have closed: nothing follows what is in the ring
  std::atomic<uint32_t> revoked;     // what we lent is no longer there: bytes read since are worth nothing
  // As a reader. Bytes of the peer's ring that we have taken, and how many of its loans we have read.
  alignas(64) std::atomic<uint64_t> taken;
  std::atomic<uint64_t> loans_read;
  std::atomic<uint32_t> can_read;  // we can read the peer's memory: it may lend
  // We look at the peer's `filled` again and again: it need not ring for what it writes. Rarely written.
  alignas(64) std::atomic<uint32_t> watches;
  // As a reader: what the peer puts into the ring costs us less than what it lends. Rarely written.
  std::atomic<uint32_t> ring_costs_less;
};
static_assert(sizeof(Half) == 192, "three cache lines: what changes with each message has one for each direction");
static_assert(std::atomic<uint64_t>::is_always_lock_free, "words that processes share have no lock");

class Segment {
 public:
  enum class End { kDialler, kListener };

  // Makes the memory; *file can then be sent to the other end.
  static Result<std::unique_ptr<Segment>> Make(uint32_t ring_bytes, Fd* file);
  // Checks and maps what a dialler sent.
  static Result<std::unique_ptr<Segment>> Attach(const Fd& file, uint32_t ring_bytes);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  Half& own() { return own_; }
  const Half& peer() const { return peer_; }
  uint8_t* own_ring() { return own_ring_; }
  const uint8_t* peer_ring() const { return peer_ring_; }
  uint32_t ring_bytes() const { return ring_bytes_; }

 private:
  Segment(End end, uint32_t ring_bytes, void* memory, size_t bytes);
  static Result<std::unique_ptr<Segment>> Map(End end, int fd, uint32_t ring_bytes);

  const uint32_t ring_bytes_;
  uint8_t* const memory_;
  const size_t bytes_;
  Half& own_;
  const Half& peer_;
  uint8_t* const own_ring_;
  const uint8_t* const peer_ring_;
};

}  // namespace fusewire::transport
