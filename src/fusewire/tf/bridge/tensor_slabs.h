// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Memory in pieces of a few sizes, each cut from a slab of its size. A slab whose pieces have all come back is cut anew
// in whatever size is wanted next; one that nobody has wanted for a second gives its memory back to the system. malloc
// can't: when the answers to a thousand workers that began at once have gone, the few pieces between them that stay
// keep the memory of all. Home: any thread. Owns: a range of addresses, and the slabs in it. Fails: Take returns null.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fusewire/base/clock.h"
#include "fusewire/base/list.h"
#include "fusewire/base/mutex.h"

namespace fusewire::tf {

class TensorSlabs {
 public:
  static constexpr size_t kSizes = 48, kPieceBytesMax = 64 << 10;
  static constexpr size_t kSlabBytes = 256 << 10, kSlabsMax = 64 << 10;
  // For how long a slab without pieces keeps its memory: a wave that comes again finds that of the last one.
  static constexpr int64_t kKeptNs = kSecondNs;

  explicit TensorSlabs(Clock* clock = Clock::Real(), size_t slabs_max = kSlabsMax);
  ~TensorSlabs();
  TensorSlabs(const TensorSlabs&) = delete;
  TensorSlabs& operator=(const TensorSlabs&) = delete;

  // A piece that begins at a cache line. `bytes` is a multiple of one, at most kPieceBytesMax, and always the same for
  // the number of a size.
  void* Take(size_t number, size_t bytes);
  bool Owns(const void* at) const { return at >= begin_ && at < end_; }
  // Of a piece that is taken.
  size_t NumberOf(const void* piece) const;
  void Return(void* piece);
  // Call this now and then: it gives back some of the memory that nobody has wanted for kKeptNs.
  void Trim();
  // Of slabs that have memory of the system's.
  size_t bytes();

 private:
  struct Slab;
  Slab* SlabOf(const void* piece) const;
  Slab* NewSlab(size_t number, size_t bytes) FUSEWIRE_REQUIRES(mutex_);

  Clock* const clock_;
  // No memory until a slab is made there.
  char* begin_ = nullptr;
  char* end_ = nullptr;
  Mutex mutex_;
  // By size: those with room. The first is filled, so that the others empty.
  std::array<List<Slab>, kSizes> open_ FUSEWIRE_GUARDED_BY(mutex_);
  std::vector<Slab*> empty_ FUSEWIRE_GUARDED_BY(mutex_);  // in the order in which their last pieces came back
  std::vector<void*> bare_ FUSEWIRE_GUARDED_BY(mutex_);   // their memory has been given back
  char* next_ FUSEWIRE_GUARDED_BY(mutex_) = nullptr;      // where there has never been a slab
};

}  // namespace fusewire::tf
