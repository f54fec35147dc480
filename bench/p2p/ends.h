// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Shared by the programs of the suite `p2p`: two processes, each with one End of the same kind, and the cases that
// use it. A program has the list of its wires and creates an End; everything else is here, so
// that all programs run the same cases.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/harness/harness.h"

namespace fusewire::bench {

// The parts of a case's name: rtt_64B_busy_shm.
struct Way {
  size_t bytes = 0;
  std::string wire;
  bool busy = false;    // neither side sleeps
  bool parked = false;  // a waiting side sleeps in the kernel at once; if neither is set: the default
  bool serves = false;
  int side = -1;  // a socket to the other process, for addresses
};

// One end of a link between two processes.
class End {
 public:
  virtual ~End() = default;
  // Sends `count` messages of `size` bytes from the same memory; returns when the memory is free.
  virtual void Send(const void* data, size_t size, uint64_t count) = 0;
  // Receives `count` messages of `size` bytes into the same memory; returns when the last has landed.
  virtual void Receive(void* data, size_t size, uint64_t count) = 0;
  // Answers messages forever; and sends messages, each after the reply to the previous one. Override them if it is
  // faster not to return to the caller in between.
  virtual void Echo(size_t size);
  virtual void RoundTrips(size_t size, const Again& again);
};

using MakeEnd = std::unique_ptr<End> (*)(const Way& way);

// As Main of the harness; also prints the wires, for `NAME wires`.
int MainOfEnds(int argc, char** argv, const char* variant, const std::vector<std::string>& wires, MakeEnd make);

// Exchanges text with the other process.
std::string Swap(const Way& way, const std::string& words);

// The number of messages to keep in flight.
size_t DepthOf(size_t size);

}  // namespace fusewire::bench
