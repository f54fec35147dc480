// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// MPI's collectives over a communicator's group: types and operators in numbers, and one call for each. They wait.
// Home: any thread, one at a time for each communicator. Fails: with an error class, after Fail().
#pragma once

#include <cstddef>
#include <optional>

#include "fusewire/collective/kernels/types.h"
#include "fusewire/mpi/abi.h"
#include "fusewire/mpi/world.h"

namespace fusewire::mpi {

// A type of MPI as elements of a group: a complex number is two.
struct Elements {
  collective::Type type = collective::Type::kU8;
  size_t each = 1;
  size_t bytes() const { return collective::SizeOf(type) * each; }
};
// None: not served.
std::optional<Elements> ElementsOf(Handle datatype);

int AllReduce(World& world, const void* from, void* to, int count, Handle datatype, Handle op, Handle communicator);
int AllGather(World& world, const void* from, int from_count, Handle from_type, void* to, int to_count, Handle to_type,
              Handle communicator);
int ReduceScatter(World& world, const void* from, void* to, const int* counts, Handle datatype, Handle op,
                  Handle communicator);

}  // namespace fusewire::mpi
