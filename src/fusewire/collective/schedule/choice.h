// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Which algorithm: what a measured table says for this size, else what a cost model says.
// Home: any thread, plain values. Owns: its rows. Fails: ParseTable says in which line what is wrong.
// All ranks must come to the same choice: it depends on what all of them know, and on nothing else.
#ifndef FUSEWIRE_COLLECTIVE_SCHEDULE_CHOICE_H_
#define FUSEWIRE_COLLECTIVE_SCHEDULE_CHOICE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fusewire/base/status.h"
#include "fusewire/collective/schedule/schedule.h"

namespace fusewire {
namespace collective {

// What a link costs, in ns: a message's way, each further message at the same time, a byte sent, a byte reduced. With
// fewer processors than ranks all the work of all ranks shares them.
struct LinkCost {
  double way_ns = 12000;
  double message_ns = 3000;
  double byte_ns = 0.33;
  double reduced_byte_ns = 0.05;
  int cpus = 0;  // of the host that all ranks are on; 0: each rank has its own
};

// Where ranks stand: the host of each, any numbers, the same list at all ranks; none: nobody knows, and the link's
// cost is all there is. That is the cost between hosts, among the ranks of one host `near`.
struct Places {
  std::vector<int> hosts;
  LinkCost near = NearCost();
  bool one_host() const;
  // Memory that is shared.
  static LinkCost NearCost() { return {6000, 1500, 0.1, 0.05, 0}; }
};

// The time that the busiest rank needs, or the whole host where it is short of processors. `bytes` is the larger array,
// evenly cut.
double EstimateNs(CollectiveKind kind, Algorithm algorithm, int ranks, size_t bytes, const LinkCost& cost,
                  size_t segment_bytes);

// A table that was measured. Its text has a line for each row, and comments that begin with #:
//   KIND RANKS BYTES_MAX ALGORITHM SEGMENT_BYTES      all-reduce 8 65536 ring 16384
// A row holds for exactly so many ranks, and for sizes up to BYTES_MAX and above those of the row before it. Rows of
// one kind and number of ranks rise in BYTES_MAX.
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
  Algorithm between = Algorithm::kBinomial;  // of two levels: what is used between hosts
};

// `reproducible` leaves only algorithms that fold in the order of ranks.
Choice Choose(CollectiveKind kind, int ranks, size_t bytes, const LinkCost& cost, const std::vector<TableRow>& table,
              bool reproducible, const Places& places = {});

}  // namespace collective
}  // namespace fusewire

#endif  // FUSEWIRE_COLLECTIVE_SCHEDULE_CHOICE_H_
