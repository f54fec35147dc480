// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Timers by the thousand: arming and disarming cost a few loads and stores, whatever their number.
// Home: the reactor's. Owns: nothing; a Timer is its holder's and disarms itself when destroyed.
// A wheel of kLevels rings with 64 slots each. A slot of ring 0 is one tick (2^16 ns, about 66 us), a slot of ring n
// is 64 slots of ring n-1. A timer waits in the ring that its delay reaches and moves down when its slot comes up.
#pragma once

#include <cstdint>

#include "fusewire/base/clock.h"
#include "fusewire/base/list.h"
#include "fusewire/reactor/timer.h"

namespace fusewire::reactor {

class TimerWheel {
 public:
  explicit TimerWheel(int64_t now_ns) : tick_(now_ns >> kTickShift) {}

  // Never fires before due_ns, and at most one tick (plus the loop's delay) after it. Arming again moves the timer.
  void Arm(Timer* timer, int64_t due_ns);
  static void Disarm(Timer* timer) { timer->Unlink(); }
  // Fires all that is due; a fired timer may arm or destroy any timer, itself too. Returns how many fired.
  int Advance(int64_t now_ns);
  // When Advance should be called next at the latest: exact or early, never late. kForeverNs if nothing is armed.
  int64_t NextNs() const;

 private:
  static constexpr int kTickShift = 16;
  static constexpr int kSlotBits = 6;
  static constexpr int kSlots = 1 << kSlotBits;
  static constexpr int kLevels = 6;  // reaches 52 days; later timers wait in the last ring and are placed again

  void Place(Timer* timer, int64_t earliest_tick);
  void Cascade(int level);

  int64_t tick_;  // all ticks up to and including this one have been fired
  List<Timer> slots_[kLevels][kSlots];
  uint64_t maybe_used_[kLevels] = {};  // a set bit may be stale, a clear bit is empty
};

}  // namespace fusewire::reactor
