// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/buffer/buffer.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace fusewire {
namespace {

constexpr size_t kAlignment = 64;  // as Eigen and AVX-512 kernels require of a tensor

// Segments up to this share one allocation: on its own, each would cost more than it holds.
constexpr size_t kSmallBytes = 256;

size_t Aligned(size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

void FreeBytes(void* owner, Bytes) { std::free(owner); }

// The beginning of an allocation that many Buffers share.
struct alignas(kAlignment) SharedBytes {
  std::atomic<size_t> holders{0};
};

void LeaveBytes(void* owner, Bytes) {
  auto* shared = static_cast<SharedBytes*>(owner);
  if (shared->holders.fetch_sub(1, std::memory_order_acq_rel) == 1) std::free(shared);
}

}  // namespace

Buffer Buffer::TryAllocate(size_t size) {
  if (size == 0) return Buffer();
  if (size > SIZE_MAX - kAlignment) return Buffer();
  void* memory = std::aligned_alloc(kAlignment, Aligned(size));
  if (memory == nullptr) return Buffer();
  return Wrap(Bytes(memory, size), memory, FreeBytes);
}

bool Buffer::TryAllocateAll(const std::vector<size_t>& sizes, std::vector<Buffer>* out) {
  out->clear();
  out->reserve(sizes.size());
  size_t small_bytes = 0, small_count = 0;
  for (size_t size : sizes) {
    const bool is_small = size > 0 && size <= kSmallBytes;
    small_bytes += is_small ? Aligned(size) : 0;
    small_count += is_small ? 1 : 0;
  }
  uint8_t* next = nullptr;
  SharedBytes* shared = nullptr;
  if (small_count > 1) {
    void* memory = std::aligned_alloc(kAlignment, sizeof(SharedBytes) + small_bytes);
    if (memory == nullptr) return false;
    shared = new (memory) SharedBytes;
    shared->holders.store(small_count, std::memory_order_relaxed);
    next = static_cast<uint8_t*>(memory) + sizeof(SharedBytes);
  }
  // The small ones first: they hold what they share from then on.
  for (size_t size : sizes) {
    const bool is_in_shared = shared != nullptr && size > 0 && size <= kSmallBytes;
    out->push_back(is_in_shared ? Wrap(Bytes(next, size), shared, LeaveBytes) : Buffer());
    if (is_in_shared) next += Aligned(size);
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    Buffer& buffer = (*out)[i];
    if (buffer.size() == sizes[i]) continue;
    buffer = TryAllocate(sizes[i]);
    if (buffer.size() == sizes[i]) continue;
    out->clear();
    return false;
  }
  return true;
}

bool Buffer::is_own() const { return release_ == FreeBytes || release_ == LeaveBytes; }

Buffer Buffer::CopyOf(ConstBytes from) {
  Buffer copy = TryAllocate(from.size);
  if (copy.size() == from.size) CopyBytes(copy.bytes(), from);
  return copy;
}

}  // namespace fusewire
