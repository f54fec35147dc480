// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
//
// What the programs of the suite `p2p` share: two processes, each with one End of the same kind, and the cases that are
// driven through it. A program says over which wires it goes and how an End is made; everything else stands here, so
// that all are asked the same.
#ifndef FUSEWIRE_BENCH_P2P_ENDS_H_
#define FUSEWIRE_BENCH_P2P_ENDS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/harness/harness.h"

namespace fusewire::bench {

// What the name of a case says: rtt_64B_busy_shm.
struct Way {
  size_t bytes = 0;
  std::string wire;
  bool busy = false;    // nobody sleeps
  bool parked = false;  // who waits sleeps in the kernel at once; neither: as each does by itself
  bool serves = false;
  int side = -1;  // a socket to the other process, for addresses
};

// One end of a link between two processes.
class End {
 public:
  virtual ~End() = default;
  // `count` messages of `size` bytes from the same memory; returns when the memory is free.
  virtual void Send(const void* data, size_t size, uint64_t count) = 0;
  // `count` messages of `size` bytes into the same memory; returns when the last has landed.
  virtual void Receive(void* data, size_t size, uint64_t count) = 0;
  // Answers messages for ever, and sends one after the other, each when the last was answered. Who does better without
  // returning to the caller in between overrides them.
  virtual void Echo(size_t size);
  virtual void RoundTrips(size_t size, const Again& again);
};

using MakeEnd = std::unique_ptr<End> (*)(const Way& way);

// As Main of the harness; also prints the wires, for `NAME wires`.
int MainOfEnds(int argc, char** argv, const char* variant, const std::vector<std::string>& wires, MakeEnd make);

// Says something to the other process, and returns what that says.
std::string Swap(const Way& way, const std::string& words);

// How many messages are worth having under way.
size_t DepthOf(size_t size);

}  // namespace fusewire::bench

#endif  // FUSEWIRE_BENCH_P2P_ENDS_H_
