// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The system's randomness, for a run that has to repeat.
#pragma once

#include <cstdint>

namespace fusewire::simulation {

void SeedSystemRandom(uint64_t seed);

}  // namespace fusewire::simulation
