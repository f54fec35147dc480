// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The options of a group, and the parameters of an operation.
// Home: any thread, plain values. Owns: nothing; arrays and lists of pieces are the caller's. Fails: never; Group::Make
// and arrays.h check them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fusewire/base/clock.h"
#include "fusewire/collective/kernels/pieces.h"
#include "fusewire/collective/kernels/types.h"
#include "fusewire/collective/schedule/choice.h"
#include "fusewire/transport/address.h"

namespace fusewire::collective {

// An endpoint by its name. Without an address, it connects to this one.
struct GroupMember {
  std::string name;
  transport::Address address;
};

// All fields but `rank` and the addresses are the same at all ranks.
struct GroupOptions {
  std::string name;
  std::vector<GroupMember> members;  // the index is the rank
  int rank = 0;
  // The default timeout of an operation; kForeverNs: none. A dead member is detected by its pipe in any case.
  int64_t timeout_ns = 60 * kSecondNs;
  // Only algorithms that reduce in the order of ranks: the same bits for every size, and in every run.
  bool reproducible = false;
  // If all members are on one host by `places.hosts`, and can share memory there, operations without a key go through
  // an arena.
  bool arena = true;
  // The inputs to the choice of an algorithm. `places.hosts` names the host of each member; a wrong guess costs time,
  // but never changes whether a result is correct.
  LinkCost link_cost;
  Places places;
  std::vector<TableRow> table;
};

// One operation. Counts are in elements of reduction.type, as in Request of schedule.h. A list of pieces and the
// arrays stay valid until the end. Without `from`, it is in place: each rank's part is already in `to`.
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

}  // namespace fusewire::collective
