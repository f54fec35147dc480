// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/reactor/timer_wheel.h"

#include <algorithm>

namespace fusewire::reactor {

void TimerWheel::Arm(Timer* timer, int64_t due_ns) {
  timer->Unlink();
  timer->due_ns_ = due_ns;
  Place(timer, tick_ + 1);  // what is due already fires in the next tick
}

void TimerWheel::Place(Timer* timer, int64_t earliest_tick) {
  // Round up, so that no timer fires early.
  int64_t due = timer->due_ns_ >= kForeverNs - (int64_t{1} << kTickShift)
                    ? kForeverNs >> kTickShift
                    : (timer->due_ns_ + (int64_t{1} << kTickShift) - 1) >> kTickShift;
  due = std::max(due, earliest_tick);
  int level = 0;
  while (level < kLevels - 1 && (due >> (kSlotBits * level)) - (tick_ >> (kSlotBits * level)) >= kSlots) ++level;
  int64_t ring = due >> (kSlotBits * level);
  int64_t ring_now = tick_ >> (kSlotBits * level);
  ring = std::min(ring, ring_now + kSlots - 1);
  auto slot = static_cast<size_t>(ring & (kSlots - 1));
  slots_[level][slot].PushBack(timer);
  maybe_used_[level] |= uint64_t{1} << slot;
}

void TimerWheel::Cascade(int level) {
  auto slot = static_cast<size_t>((tick_ >> (kSlotBits * level)) & (kSlots - 1));
  if (level + 1 < kLevels && slot == 0) Cascade(level + 1);
  if ((maybe_used_[level] >> slot & 1) == 0) return;
  maybe_used_[level] &= ~(uint64_t{1} << slot);
  List<Timer> moving;
  moving.TakeAll(&slots_[level][slot]);
  // This tick has not fired yet: what is due in it still does.
  while (Timer* timer = moving.PopFront()) Place(timer, tick_);
}

int TimerWheel::Advance(int64_t now_ns) {
  int fired = 0;
  int64_t target = now_ns >> kTickShift;
  while (tick_ < target) {
    // Jump over ticks in which nothing can happen.
    int64_t next = NextNs();
    int64_t next_tick = next == kForeverNs ? target : std::max(tick_ + 1, next >> kTickShift);
    tick_ = std::min(target, next_tick);
    auto slot = static_cast<size_t>(tick_ & (kSlots - 1));
    if (slot == 0) Cascade(1);
    if ((maybe_used_[0] >> slot & 1) == 0) continue;
    maybe_used_[0] &= ~(uint64_t{1} << slot);
    List<Timer> due;
    due.TakeAll(&slots_[0][slot]);
    while (Timer* timer = due.PopFront()) {
      ++fired;
      timer->fire_();
    }
  }
  return fired;
}

int64_t TimerWheel::NextNs() const {
  int64_t best = kForeverNs;
  for (int level = 0; level < kLevels; ++level) {
    uint64_t used = maybe_used_[level];
    if (used == 0) continue;
    int64_t ring_now = tick_ >> (kSlotBits * level);
    auto from = static_cast<unsigned>((ring_now + 1) & (kSlots - 1));
    // Rotate so that bit 0 is the slot that comes up next.
    uint64_t ahead = from == 0 ? used : (used >> from) | (used << (kSlots - from));
    int64_t ring = ring_now + 1 + __builtin_ctzll(ahead);
    best = std::min(best, (ring << (kSlotBits * level)) << kTickShift);
  }
  return best;
}

}  // namespace fusewire::reactor
