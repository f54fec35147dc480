// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The options of a group; Group::Make checks them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fusewire/base/clock.h"
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

}  // namespace fusewire::collective
