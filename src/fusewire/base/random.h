// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Small fast random numbers from a seed, the same on every machine; and random bytes from the system.
// Home: the owner's. Owns: its state. Fails: SystemRandom never returns without random bytes.
#pragma once

#include <cstdint>

#include "fusewire/base/bytes.h"

namespace fusewire {

// SplitMix64. Not for secrets.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t mixed = (state_ += 0x9e3779b97f4a7c15ULL);
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
    return mixed ^ (mixed >> 31);
  }
  // In [0, bound); bound must not be 0.
  uint64_t Below(uint64_t bound) { return Next() % bound; }
  // In [low, high].
  uint64_t Between(uint64_t low, uint64_t high) {
    const uint64_t choices = high - low + 1;
    return choices == 0 ? Next() : low + Below(choices);  // 0: every 64-bit number is in the range
  }
  double Fraction() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }
  bool Chance(double probability) { return Fraction() < probability; }

 private:
  uint64_t state_;
};

// Fills `out` with random bytes of the operating system, fit for nonces and incarnations. Any thread.
void SystemRandom(Bytes out);
uint64_t SystemRandom64();

}  // namespace fusewire
