// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// MPI's messages between two ranks of a communicator: those of the endpoint, told apart by their tags. XLA sends bytes,
// to another rank, with a tag that it names.
// Home: any thread; the one that begins a request waits for it. Owns: requests, until Wait.
// Fails: with an error class, after Fail(), which ends all requests that this thread has begun on the communicator.
#pragma once

#include "fusewire/mpi/abi.h"
#include "fusewire/mpi/world.h"

namespace fusewire::mpi {

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
