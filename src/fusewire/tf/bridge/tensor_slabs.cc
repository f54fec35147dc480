// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/bridge/tensor_slabs.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

#include "fusewire/base/check.h"

namespace fusewire::tf {

namespace {

constexpr size_t kSlabLine = 64;
// In one Trim: giving memory back takes time.
constexpr size_t kTrimsMax = 4;

}  // namespace

// At the beginning of its own memory.
struct alignas(kSlabLine) TensorSlabs::Slab : ListNode {
  struct Piece {
    Piece* next;
  };
  Slab(size_t number_in, size_t piece_bytes_in) : number(number_in), piece_bytes(piece_bytes_in) {}
  bool has_room() const { return returned != nullptr || cut + piece_bytes <= kSlabBytes; }

  const size_t number, piece_bytes;
  size_t cut = sizeof(Slab);  // so many bytes are in use, or have been cut into pieces
  size_t taken = 0;
  Piece* returned = nullptr;
  int64_t emptied_ns = 0;
};

TensorSlabs::TensorSlabs(Clock* clock, size_t slabs_max) : clock_(clock) {
  void* const range =
      mmap(nullptr, slabs_max * kSlabBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return;  // a limit on addresses
  begin_ = next_ = static_cast<char*>(range);
  end_ = begin_ + slabs_max * kSlabBytes;
}

TensorSlabs::~TensorSlabs() {
  MutexLock lock(mutex_);
  for (List<Slab>& slabs : open_) {
    while (slabs.PopFront() != nullptr) {
    }
  }
  if (begin_ != nullptr) munmap(begin_, static_cast<size_t>(end_ - begin_));
}

TensorSlabs::Slab* TensorSlabs::SlabOf(const void* piece) const {
  FUSEWIRE_DCHECK(Owns(piece));
  const auto offset = static_cast<size_t>(static_cast<const char*>(piece) - begin_);
  return reinterpret_cast<Slab*>(begin_ + offset / kSlabBytes * kSlabBytes);
}

size_t TensorSlabs::NumberOf(const void* piece) const { return SlabOf(piece)->number; }

TensorSlabs::Slab* TensorSlabs::NewSlab(size_t number, size_t bytes) {
  void* memory = next_;
  if (!empty_.empty()) {
    memory = empty_.back();
    empty_.pop_back();
  } else if (!bare_.empty()) {
    memory = bare_.back();
    bare_.pop_back();
  } else {
    if (next_ == end_ || mprotect(next_, kSlabBytes, PROT_READ | PROT_WRITE) != 0) return nullptr;
    next_ += kSlabBytes;
  }
  Slab* const slab = new (memory) Slab(number, bytes);
  open_[number].PushBack(slab);
  return slab;
}

void* TensorSlabs::Take(size_t number, size_t bytes) {
  FUSEWIRE_DCHECK(number < kSizes);
  FUSEWIRE_DCHECK(bytes % kSlabLine == 0 && bytes <= kPieceBytesMax);
  MutexLock lock(mutex_);
  Slab* slab = open_[number].front();
  if (slab == nullptr) slab = NewSlab(number, bytes);
  if (slab == nullptr) return nullptr;
  FUSEWIRE_DCHECK(slab->piece_bytes == bytes);
  void* piece = slab->returned;
  if (piece != nullptr) {
    slab->returned = slab->returned->next;
  } else {
    piece = reinterpret_cast<char*>(slab) + slab->cut;
    slab->cut += bytes;
  }
  ++slab->taken;
  if (!slab->has_room()) slab->Unlink();
  return piece;
}

void TensorSlabs::Return(void* piece) {
  Slab* const slab = SlabOf(piece);
  MutexLock lock(mutex_);
  FUSEWIRE_DCHECK(slab->taken > 0);
  slab->returned = new (piece) Slab::Piece{slab->returned};
  if (--slab->taken > 0) {
    if (!slab->linked()) open_[slab->number].PushBack(slab);
    return;
  }
  slab->Unlink();
  slab->emptied_ns = clock_->NowNs();
  empty_.push_back(slab);
}

void TensorSlabs::Trim() {
  MutexLock lock(mutex_);
  if (empty_.empty()) return;
  const int64_t until_ns = clock_->NowNs() - kKeptNs;
  size_t old = 0;
  while (old < std::min(empty_.size(), kTrimsMax) && empty_[old]->emptied_ns <= until_ns) {
    madvise(empty_[old], kSlabBytes, MADV_DONTNEED);
    bare_.push_back(empty_[old++]);
  }
  empty_.erase(empty_.begin(), empty_.begin() + static_cast<std::ptrdiff_t>(old));
}

size_t TensorSlabs::bytes() {
  MutexLock lock(mutex_);
  return static_cast<size_t>(next_ - begin_) - bare_.size() * kSlabBytes;
}

}  // namespace fusewire::tf
