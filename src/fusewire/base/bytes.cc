// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/base/bytes.h"

#include <atomic>
#include <cstring>

#include "fusewire/base/check.h"
#include "fusewire/base/metrics.h"

namespace fusewire {
namespace {

// Each thread has its own counts, so counting touches no shared cache line; a read adds them up.
struct ThreadCounts {
  Counter small_bytes, large_copies;
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

}  // namespace

void CopyBytes(Bytes to, ConstBytes from) {
  FUSEWIRE_CHECK(to.size >= from.size);
  if (from.size == 0) return;
  std::memcpy(to.data, from.data, from.size);
  thread_local ThreadCounts* counts = MakeThreadCounts();
  if (from.size >= kCopyBytesMax) {
    counts->large_copies.Add();
  } else {
    counts->small_bytes.Add(from.size);
  }
}

CopyCounts ReadCopyCounts() {
  CopyCounts sum;
  for (ThreadCounts* it = all_counts.load(std::memory_order_acquire); it != nullptr; it = it->next) {
    sum.small_bytes += it->small_bytes.Read();
    sum.large_copies += it->large_copies.Read();
  }
  return sum;
}

}  // namespace fusewire
