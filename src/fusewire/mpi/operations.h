// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// MPI's collectives over a communicator's group, and its messages between two ranks, which are the endpoint's.
// Home: any thread, one at a time for each communicator; the thread that begins a request waits for it. Owns: requests,
// until Wait. Fails: with an error class, after Fail(); a message's ends all requests that this thread has begun on the
// communicator.
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

// XLA sends bytes, to another rank, with a tag that it names.
struct Message {
  void* data = nullptr;
  int count = 0;
  Handle datatype = handle::kBYTE;
  int peer = 0;
  int tag = 0;
};

int BeginSend(World& world, const Message& message, Handle communicator, Handle* request);
int BeginReceive(World& world, const Message& message, Handle communicator, Handle* request);
// `status` may be null. Sets the request to null.
int Wait(World& world, Handle* request, Status* status);
int SendReceive(World& world, const Message& sent, const Message& received, Handle communicator, Status* status);

}  // namespace fusewire::mpi
