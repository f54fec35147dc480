// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The choice of an algorithm: from a measured table if it has a row for the size, otherwise from a cost model.
// Home: any thread, plain values. Owns: its rows. Fails: ParseTable, with the line and the field that are wrong.
// All ranks must come to the same choice: it depends only on values that are the same at all ranks.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "fusewire/base/status.h"
#include "fusewire/collective/kernels/types.h"
#include "fusewire/collective/schedule/algorithm.h"

namespace fusewire::collective {

// The cost of a link, in ns: a message's latency, each further message at the same time, a byte sent, a byte reduced.
// If there are fewer processors than ranks, the work of all ranks shares them.
struct LinkCost {
  double way_ns = 12000;
  double message_ns = 3000;
  double byte_ns = 0.33;
  double reduced_byte_ns = 0.05;
  int cpus = 0;  // processors of the host that all ranks share; 0: each rank has its own
};

// The hosts of the ranks, as any numbers, the same list at all ranks; empty: unknown. Among the ranks of one host, a
// link costs `near`.
struct Places {
  std::vector<int> hosts;
  LinkCost near = NearCost();
  bool one_host() const;
  // Of shared memory.
  static LinkCost NearCost() { return {6000, 1500, 0.1, 0.05, 0}; }
};

// The time that the busiest rank needs, or the whole host if it is short of processors. `bytes` is the size of the
// larger array, which is cut evenly.
double EstimateNs(CollectiveKind kind, Algorithm algorithm, int ranks, size_t bytes, const LinkCost& cost,
                  size_t segment_bytes);

// A row of a measured table. Its text has a line for each row, and comments that begin with #:
//   KIND RANKS BYTES_MAX ALGORITHM SEGMENT_BYTES      all-reduce 8 65536 ring 16384
// A row applies to exactly RANKS ranks, and to sizes up to BYTES_MAX that the row before does not cover. Rows of the
// same KIND and RANKS rise in BYTES_MAX.
struct TableRow {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int ranks = 0;
  size_t bytes_max = 0;
  Algorithm algorithm = Algorithm::kRing;
  size_t segment_bytes = 0;
};

constexpr size_t kTableRowsMax = 10000;

Result<std::vector<TableRow>> ParseTable(const std::string& text);
std::string WriteTable(const std::vector<TableRow>& rows);

struct Choice {
  Algorithm algorithm = Algorithm::kDirect;
  size_t segment_bytes = 64 * 1024;
  double estimate_ns = 0;                    // 0: from the table
  Algorithm between = Algorithm::kBinomial;  // of two levels: the algorithm between hosts
};

// `reproducible` allows only algorithms that reduce in the order of ranks. `bytes` is 0 for an all-to-all of which each
// rank knows only its own counts.
Choice Choose(CollectiveKind kind, int ranks, size_t bytes, const LinkCost& cost, const std::vector<TableRow>& table,
              bool reproducible, const Places& places = {});

}  // namespace fusewire::collective
