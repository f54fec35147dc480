// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Budget bounds memory that many holders share: none gets more than is left, and
// waiting holders are served in the order of their requests.
// It may be paced: then no more is granted while what was granted and is not returned is more than the caches hold. So
// peers that all send at once take turns, and what one has sent is used before the next one's replaces it. Two kinds do
// not count, so that nobody waits for them: what is still arriving although its reader has had nothing to do for a
// while (a slow peer), and what has arrived if nothing has been returned for long (calls that wait for each other).
// Home: any thread. Owns: a sum and a queue. Fails: TryReserve says not yet; see docs/buffers.md for who holds what.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "fusewire/base/clock.h"
#include "fusewire/base/mutex.h"
#include "fusewire/base/unique_function.h"

namespace fusewire {

// Decides whether more may be granted now: keeps the sum of recent grants that have not been used yet.
// Home: under its budget's lock. Owns: the sums.
class Pace {
 public:
  // How often the first waiter has to ask again: grants expire without a call.
  static constexpr int64_t kPeriodNs = 10 * kMillisecondNs;
  // If nothing has been returned for this long, the holders are stuck, and nobody should wait for them.
  static constexpr int64_t kStuckNs = 250 * kMillisecondNs;

  // A holder's recent grants, and the sum that they are part of: a period's, or that of bytes that have arrived.
  struct Recent {
    uint64_t bytes = 0;
    bool arrived = false;
    uint64_t number = 0;
  };

  // If not set, it limits nothing.
  bool is_set() const { return at_once_bytes_ != 0; }
  void Set(uint64_t at_once_bytes) { at_once_bytes_ = at_once_bytes; }
  void LookAtTime(int64_t now_ns, int64_t idle_ns);
  bool IsInPace() const;
  // Notes the size of a request.
  void Ask(uint64_t bytes);
  // The request is granted. The holder's earlier grants count from now on as well: they will be used together.
  void Grant(Recent* recent, uint64_t bytes);
  void Arrived(Recent* recent);
  void Return(Recent* recent, uint64_t bytes);

 private:
  // Bytes granted in a period that have neither arrived nor been returned.
  struct Period {
    uint64_t arriving_bytes = 0;
    uint64_t largest_bytes = 0;  // of one holder, or that one asked for
  };

  Period& now() { return periods_[period_ % 2]; }
  // Null if they no longer count.
  uint64_t* SumOf(const Recent& recent);

  uint64_t at_once_bytes_ = 0;
  Period periods_[2];  // the current one and the one before
  uint64_t period_ = 2;
  int64_t period_began_ns_ = 0;
  uint64_t arrived_bytes_ = 0;   // and are not returned yet
  uint64_t arrived_number_ = 0;  // changes when those bytes stop counting
  bool has_returned_ = false;    // something, since the last look at the time
  int64_t returned_ns_ = 0;
};

class Budget {
 public:
  class Share;

  explicit Budget(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}
  ~Budget();
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  // Any thread. From now on about `at_once_bytes` are granted at once, or 8 times what the largest holder got if that
  // is more.
  void SetPace(uint64_t at_once_bytes);
  // Any thread. Counts memory that is there already, beyond the limit if need be. Requests then wait for it,
  // too, but for one at a time, which is granted when nothing else is reserved. False: more than the limit is used now.
  // GiveBack follows.
  bool Take(uint64_t bytes);
  void GiveBack(uint64_t bytes);

  uint64_t limit_bytes() const { return limit_bytes_; }
  uint64_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }
  uint64_t peak_bytes() const { return peak_bytes_.load(std::memory_order_relaxed); }
  // Any thread. True while a holder waits: others should then return what they don't need.
  bool wanted() const { return waiting_.load(std::memory_order_relaxed) > 0; }

 private:
  bool Fits(uint64_t bytes) const FUSEWIRE_REQUIRES(mutex_);
  void SetUsed(uint64_t bytes) FUSEWIRE_REQUIRES(mutex_);
  void Append(Share* share) FUSEWIRE_REQUIRES(mutex_);
  void Remove(Share* share) FUSEWIRE_REQUIRES(mutex_);
  // If there is room for it. `is_new`: in any case, so that it looks at the time.
  void WakeFirst(bool is_new) FUSEWIRE_REQUIRES(mutex_);

  const uint64_t limit_bytes_;
  // A mutex, unlike the rest of the lower rooms: it is taken when a window grows or shrinks, never per message.
  Mutex mutex_;
  Share* first_ FUSEWIRE_GUARDED_BY(mutex_) = nullptr;  // those that wait
  Share* last_ FUSEWIRE_GUARDED_BY(mutex_) = nullptr;
  uint64_t taken_bytes_ FUSEWIRE_GUARDED_BY(mutex_) = 0;  // of those used
  Pace pace_ FUSEWIRE_GUARDED_BY(mutex_);
  std::atomic<uint64_t> used_bytes_{0};  // written under the mutex
  std::atomic<uint64_t> peak_bytes_{0};
  std::atomic<size_t> waiting_{0};
};

// What one holder has of a budget, and its place in the queue. Home: its owner's. The budget outlives it.
class Budget::Share {
 public:
  // `on_room`: this share waits as the first, and there may be room; ask again. Any thread, under the budget's lock: it
  // must not call the budget.
  explicit Share(Budget* budget, UniqueFunction<void()> on_room = nullptr)
      : budget_(*budget), on_room_(std::move(on_room)) {}
  // Leaves the queue, and returns all.
  ~Share();
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;

  // All or nothing. On false, the share is in the queue: none behind it is served before it asks again and succeeds, or
  // leaves the queue. A request larger than the whole budget is granted when nothing else is reserved, so that one very
  // large message can pass, alone. If the budget is paced, the time matters, and when the holder's loop last ran out of
  // work.
  bool TryReserve(uint64_t bytes, int64_t now_ns = 0, int64_t idle_ns = 0);
  // Everything that was granted has arrived.
  void Arrived();
  // These bytes have been used: they no longer count towards the pace, although the share still holds them.
  void Used(uint64_t bytes);
  // Leaves the queue, if it is in it.
  void GiveUp();
  // Returns what TryReserve granted, in any number of steps.
  void Release(uint64_t bytes);
  uint64_t bytes() const { return bytes_; }
  // In the queue, as of the last TryReserve.
  bool is_first() const { return is_first_; }

 private:
  friend class Budget;

  Budget& budget_;
  UniqueFunction<void()> on_room_;
  uint64_t bytes_ = 0;
  Pace::Recent recent_;
  bool is_first_ = false;
  // Under the budget's lock:
  uint64_t wish_bytes_ = 0;  // while it waits
  bool waits_ = false;
  bool is_woken_ = false;  // and has not asked again since
  Share* before_ = nullptr;
  Share* next_ = nullptr;
};

}  // namespace fusewire
