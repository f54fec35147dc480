// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Takes the place of base/random.cc in this program: also what comes from the system is drawn, so that the bytes of a
// greeting repeat with the seed.
#include "seeded_random.h"

#include "fusewire/base/random.h"

namespace fusewire {
namespace {

Random* Source() {
  static Random random(1);
  return &random;
}

}  // namespace

void SystemRandom(Bytes out) {
  for (; out.size > 0; out = out.From(1)) out.data[0] = static_cast<uint8_t>(Source()->Next());
}

uint64_t SystemRandom64() { return Source()->Next(); }

namespace simulation {

void SeedSystemRandom(uint64_t seed) { *Source() = Random(seed); }

}  // namespace simulation
}  // namespace fusewire
