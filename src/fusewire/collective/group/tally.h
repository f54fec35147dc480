// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// How many collective operations have ended in this process, and how many bytes they had: for numbers that must cost an
// operation nothing.
// Home: Add on one thread at a time; TallyOfAll on any, without a lock. Owns: a place in a table of the process until
// it ends. Fails: never; beyond kTallies at a time, several share the last place, with a locked instruction each.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fusewire::collective {

constexpr size_t kTallies = 256;

struct TallyPlace;

struct TallySum {
  uint64_t operations = 0;
  uint64_t bytes = 0;
};
// Since the process began.
TallySum TallyOfAll();

class Tally {
 public:
  Tally();
  ~Tally();
  Tally(const Tally&) = delete;
  Tally& operator=(const Tally&) = delete;

  // An operation with arrays of that size has ended well.
  void Add(uint64_t bytes);

 private:
  TallyPlace* const place_;
};

}  // namespace fusewire::collective
