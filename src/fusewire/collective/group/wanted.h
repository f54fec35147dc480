// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// How a group is made, and what is wanted of one operation.
// Home: any thread, plain values. Owns: nothing; arrays and lists of pieces are the caller's. Fails: never; Group::Make
// and arrays.h check them.
#ifndef FUSEWIRE_COLLECTIVE_GROUP_WANTED_H_
#define FUSEWIRE_COLLECTIVE_GROUP_WANTED_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fusewire/base/clock.h"
#include "fusewire/collective/kernels/pieces.h"
#include "fusewire/collective/kernels/types.h"
#include "fusewire/collective/schedule/choice.h"
#include "fusewire/transport/address.h"

namespace fusewire {
namespace collective {

// An endpoint by its name. Without an address it will dial us, or has come already.
struct GroupMember {
  std::string name;
  transport::Address address;
};

// All but `rank` and addresses is the same at all ranks.
struct GroupOptions {
  std::string name;
  std::vector<GroupMember> members;  // the index is the rank
  int rank = 0;
  // Of an operation that says nothing else; kForeverNs: none. Whoever is dead is noticed by its pipe in any case.
  int64_t timeout_ns = 60 * kSecondNs;
  // Only algorithms that fold in the order of ranks: the same bits for every size, and in every run.
  bool reproducible = false;
  // Where `places.hosts` says that all members stand on one host, and where memory can be shared there, operations
  // without a key go through an arena.
  bool arena = true;
  // What the choice of algorithms goes by. `places.hosts` says which members stand on one host; a guess that is wrong
  // costs time, never a result.
  LinkCost link_cost;
  Places places;
  std::vector<TableRow> table;
};

// One operation. Counts are in elements of reduction.type, as in Request of schedule.h. A list of pieces and the
// arrays stay valid until the end. Without `from`, it is made in place: each rank's part stands in `to` already.
struct Wanted {
  CollectiveKind kind = CollectiveKind::kBarrier;
  Reduction reduction;
  int root = 0;
  std::vector<size_t> counts;
  std::vector<size_t> receives;
  Pieces from;
  Pieces to;
  // Not 0: meets the operations of this key at the other ranks, whatever the order of calls; those of one key meet in
  // their order. 0: the order of the calls, which is the same at all ranks.
  uint64_t key = 0;
  // Among operations that could go on, the higher goes first.
  int priority = 0;
  // Over messages: the operation ends here when the ranks that it sends to have what it sent. Else a small message
  // ends when it has left, and the root of a broadcast may be done before the others have begun.
  bool confirm = false;
  int64_t timeout_ns = 0;  // 0: the group's
};

}  // namespace collective
}  // namespace fusewire

#endif  // FUSEWIRE_COLLECTIVE_GROUP_WANTED_H_
