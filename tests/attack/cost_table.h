// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What hostile peers cost at most, as docs/reliability.md says: a test measures a row and compares it with the page, or
// with TEST_TABLE=1 writes it there, half as much again as it measured.
//   | says hello, never proves | tcp | connection | 16 KiB | 150 us | 1 | 0 |
// Home: any thread. Fails: as a test does.
#pragma once

#include <cstdint>
#include <string>

namespace fusewire::attack {

struct Cost {
  double memory_bytes = 0, cpu_ns = 0, descriptors = 0, threads = 0;
};

// `per`: what the numbers are for, "connection". Of a build with sanitizers, memory and time say nothing.
void ExpectCost(const std::string& what, const std::string& way, const std::string& per, const Cost& measured);

}  // namespace fusewire::attack
