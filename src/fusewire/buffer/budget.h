// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Budget bounds memory that many holders share: nobody gets more than is left, however many they are, and those who
// have to wait are served in the order in which they came.
// Home: any thread. Owns: a sum and a queue. Fails: TryReserve says not yet; see docs/buffers.md for who holds what.
#ifndef FUSEWIRE_BUFFER_BUDGET_H_
#define FUSEWIRE_BUFFER_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <deque>

#include "fusewire/base/mutex.h"

namespace fusewire {

class Budget {
 public:
  explicit Budget(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}
  ~Budget();
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  // Any thread. All or nothing. On false `holder` stands in the queue: nobody behind it gets anything before it asks
  // again and succeeds, or gives up. A wish larger than the whole budget is granted when nothing else is reserved, so
  // that one very large message can pass, alone.
  bool TryReserve(uint64_t bytes, const void* holder);
  // Any thread. The holder leaves the queue; no harm if it is not in it.
  void GiveUp(const void* holder);
  // Any thread. Gives back what TryReserve granted, in any number of steps.
  void Release(uint64_t bytes);

  uint64_t limit_bytes() const { return limit_bytes_; }
  uint64_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }
  uint64_t peak_bytes() const { return peak_bytes_.load(std::memory_order_relaxed); }
  // Any thread. Somebody waits: whoever holds more than he needs should give it back.
  bool wanted() const { return waiting_.load(std::memory_order_relaxed) > 0; }

 private:
  const uint64_t limit_bytes_;
  // A mutex, though nothing else down here has one: it is taken when a window grows or shrinks, never per message.
  Mutex mutex_;
  std::deque<const void*> queue_ FUSEWIRE_GUARDED_BY(mutex_);
  std::atomic<uint64_t> used_bytes_{0};  // written under the mutex
  std::atomic<uint64_t> peak_bytes_{0};
  std::atomic<size_t> waiting_{0};
};

}  // namespace fusewire

#endif  // FUSEWIRE_BUFFER_BUDGET_H_
