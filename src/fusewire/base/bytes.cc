// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/base/bytes.h"

#include <atomic>
#include <cstring>

#include "fusewire/base/check.h"

namespace fusewire {
namespace {

// Each thread has its own counts, so counting touches no shared cache line; a read adds them up.
struct ThreadCounts {
  std::atomic<uint64_t> small_bytes{0};
  std::atomic<uint64_t> large_copies{0};
  ThreadCounts* next = nullptr;
};

std::atomic<ThreadCounts*> all_counts{nullptr};

// A thread's counts outlive the thread. One small record per thread, never freed.
ThreadCounts* MakeThreadCounts() {
  auto* counts = new ThreadCounts;
  counts->next = all_counts.load(std::memory_order_relaxed);
  while (
      !all_counts.compare_exchange_weak(counts->next, counts, std::memory_order_release, std::memory_order_relaxed)) {
  }
  return counts;
}

void AddOwn(std::atomic<uint64_t>* count, uint64_t amount) {
  count->store(count->load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

}  // namespace

void CopyBytes(Bytes to, ConstBytes from) {
  FUSEWIRE_CHECK(to.size >= from.size);
  if (from.size == 0) return;
  std::memcpy(to.data, from.data, from.size);
  thread_local ThreadCounts* counts = MakeThreadCounts();
  if (from.size >= kCopyBytesMax) {
    AddOwn(&counts->large_copies, 1);
  } else {
    AddOwn(&counts->small_bytes, from.size);
  }
}

CopyCounts ReadCopyCounts() {
  CopyCounts sum;
  for (ThreadCounts* it = all_counts.load(std::memory_order_acquire); it != nullptr; it = it->next) {
    sum.small_bytes += it->small_bytes.load(std::memory_order_relaxed);
    sum.large_copies += it->large_copies.load(std::memory_order_relaxed);
  }
  return sum;
}

}  // namespace fusewire
