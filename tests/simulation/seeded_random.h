// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The system's randomness, for a run that has to repeat.
#ifndef FUSEWIRE_TESTS_SIMULATION_SEEDED_RANDOM_H_
#define FUSEWIRE_TESTS_SIMULATION_SEEDED_RANDOM_H_

#include <cstdint>

namespace fusewire {
namespace simulation {

void SeedSystemRandom(uint64_t seed);

}  // namespace simulation
}  // namespace fusewire

#endif  // FUSEWIRE_TESTS_SIMULATION_SEEDED_RANDOM_H_
