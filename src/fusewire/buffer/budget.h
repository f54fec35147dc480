// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Budget bounds memory that many holders share: none gets more than is left, and
// waiting holders are served in the order of their requests.
// Home: any thread. Owns: a sum and a queue. Fails: TryReserve says not yet; see docs/buffers.md for who holds what.
#pragma once

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

  // Any thread. All or nothing. On false, `holder` is in the queue: no holder behind it is served before it asks again
  // and succeeds, or leaves the queue. A request larger than the whole budget is granted when nothing else is reserved,
  // so that one very large message can pass, alone.
  bool TryReserve(uint64_t bytes, const void* holder);
  // Any thread. The holder leaves the queue, if it is in it.
  void GiveUp(const void* holder);
  // Any thread. Returns what TryReserve granted, in any number of steps.
  void Release(uint64_t bytes);
  // Any thread. Counts memory that is there already, beyond the limit if need be. Requests then wait for it,
  // too, but for one at a time, which is granted when nothing else is reserved. False: more than the limit is used now.
  // Not to be forgotten: GiveBack.
  bool Take(uint64_t bytes);
  void GiveBack(uint64_t bytes);

  uint64_t limit_bytes() const { return limit_bytes_; }
  uint64_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }
  uint64_t peak_bytes() const { return peak_bytes_.load(std::memory_order_relaxed); }
  // Any thread. True while a holder waits: others should then return what they don't need.
  bool wanted() const { return waiting_.load(std::memory_order_relaxed) > 0; }

 private:
  const uint64_t limit_bytes_;
  // A mutex, unlike the rest of the lower rooms: it is taken when a window grows or shrinks, never per message.
  Mutex mutex_;
  std::deque<const void*> queue_ FUSEWIRE_GUARDED_BY(mutex_);
  uint64_t taken_bytes_ FUSEWIRE_GUARDED_BY(mutex_) = 0;  // of those used
  std::atomic<uint64_t> used_bytes_{0};                   // written under the mutex
  std::atomic<uint64_t> peak_bytes_{0};
  std::atomic<size_t> waiting_{0};
};

}  // namespace fusewire
