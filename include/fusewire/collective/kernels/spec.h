// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The parameters of one collective, and the arrays that a rank reads and writes in it.
// Home: any thread, plain values. Owns: nothing; arrays and lists of pieces are the caller's. Fails: CheckSpec, with
// kInvalid, which names the count or the array.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fusewire/base/status.h"
#include "fusewire/collective/kernels/pieces.h"
#include "fusewire/collective/kernels/types.h"

namespace fusewire::collective {

// One operation. Counts are in elements of reduction.type, see the table at Request in schedule.h. A list of pieces and
// the arrays stay valid until the end. Without `from`, it is in place: each rank's part is already in `to`.
struct CollectiveSpec {
  CollectiveKind kind = CollectiveKind::kBarrier;
  Reduction reduction;
  int root = 0;
  std::vector<size_t> counts;
  std::vector<size_t> receives;
  Pieces from;
  Pieces to;
  // Not 0: matched with the operations of this key at the other ranks, in their order for each key. 0: matched in the
  // order of calls, which must be the same at all ranks.
  uint64_t key = 0;
  // Over messages, the operation ends here only when the ranks to which it sends have received all of it. Otherwise a
  // small message ends when it has been sent, and the root of a broadcast may end before the others have begun.
  bool confirm = false;
  int64_t timeout_ns = 0;  // 0: the group's
};

struct Arrays {
  Pieces input;
  Pieces output;
  // One array for both: of two sizes, only the larger one is given, and the smaller one is its block.
  bool in_place = false;
};

// Checks a rank's counts and the sizes of its arrays, and finds which of them it reads and writes.
Status CheckSpec(const CollectiveSpec& spec, int ranks, int rank, Arrays* arrays);

}  // namespace fusewire::collective
