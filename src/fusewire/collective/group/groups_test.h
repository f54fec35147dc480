// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// For tests of groups: over what they run, what they ask for, and what comes of it.
// Home: the test's thread. Fails: not.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/collective/group/group.h"
#include "fusewire/task/wires_test.h"

namespace fusewire::collective {

// Groups over each wire, or with an arena too.
class GroupsOverWires : public task::OverWires {
 protected:
  static bool arena() { return GetParam().name == std::string("Arena"); }
  static GroupOptions Options(int ranks) {
    GroupOptions options;
    if (arena()) options.places.hosts.assign(static_cast<size_t>(ranks), 0);
    return options;
  }
};

using Array = std::vector<int64_t>;

inline Pieces Of(Array& array) { return Pieces(array.data(), array.size() * sizeof(int64_t)); }

inline CollectiveSpec Want(CollectiveKind kind, std::vector<size_t> counts, Pieces from, Pieces to) {
  CollectiveSpec spec;
  spec.kind = kind;
  spec.reduction.type = Type::kI64;
  spec.counts = std::move(counts);
  spec.from = from;
  spec.to = to;
  spec.timeout_ns = 20 * kSecondNs;
  return spec;
}

// Rank r's value at element i.
inline int64_t Value(int rank, size_t i) { return static_cast<int64_t>(i * 7 % 1000) + 1000 * rank; }

inline Array Brought(int rank, size_t count) {
  Array array(count);
  for (size_t i = 0; i < count; ++i) array[i] = Value(rank, i);
  return array;
}

inline Array SumOfAll(int ranks, size_t count) {
  Array sum(count);
  for (int rank = 0; rank < ranks; ++rank) {
    for (size_t i = 0; i < count; ++i) sum[i] += Value(rank, i);
  }
  return sum;
}

#define FUSEWIRE_GROUPS_OVER_WIRES(suite) \
  FUSEWIRE_OVER_WIRES(suite);             \
  INSTANTIATE_TEST_SUITE_P(               \
      In, suite, ::testing::Values(task::TestedWire{"Arena", task::TransportChoice::kShm, "shm", ""}), task::NameOf)

}  // namespace fusewire::collective
